from collections import Counter

import voices
from voices import KINDS, Written, faults, held_out, wordings


def test_the_texts_are_many_voices_with_thirteen_answers_each():
    rows = voices.voices()
    counts = Counter(row.voice for row in rows)
    assert len(rows) >= 6000
    assert len(counts) >= 60
    assert min(counts.values()) >= 90
    assert list(faults(rows)) == []


def test_most_texts_do_not_name_the_kind_of_thing_they_are_about():
    rows = voices.voices()
    named = sum(row.answers["thing"].split()[-1].rstrip("s") in row.text.lower() for row in rows)
    assert named < len(rows) / 3


def test_a_fifth_of_the_voices_is_held_out():
    names = {row.voice for row in voices.voices()}
    assert 0.1 < sum(map(held_out, names)) / len(names) < 0.3


def test_every_kind_is_asked_in_wordings_that_no_other_kind_has():
    asked = wordings()
    assert tuple(asked) == KINDS
    assert all((len(each["trained"]), len(each["held_out"])) >= (8, 2) for each in asked.values())
    every = [wording for each in asked.values() for wording in [*each["trained"], *each["held_out"]]]
    assert len(every) == len(set(every))


def test_faults_of_rows_are_named():
    good = dict.fromkeys(KINDS, "nothing")
    rows = [
        Written("a", "A text.", good),
        Written("b", "a  TEXT.", good),
        Written("b", "Another.", {**good, "mood": "Cross"}),
        Written("b", "A third.", {"mood": "calm"}),
    ]
    assert [fault.partition(": ")[0] for fault in faults(rows)] == ["b", "b", "b"]
    twice, form, _ = faults(rows)
    assert "stands in a too" in twice
    assert "'Cross'" in form
