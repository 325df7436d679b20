"""Which texts a search under an instruction reads, in rounds until its hits no longer change."""

import random
import sqlite3
import zlib

import numpy as np
import pytest
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder, Products, RichEncoder, add_to_base, ids
from sklearn.linear_model import Ridge

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.index.open_views import OpenViews
from retriever.index.search import rounds
from retriever.index.search.feedback import FEWEST, REGULARISATION, directions
from retriever.store.database import DATABASE
from retriever.workspace import Index

PRODUCTS = ["kettle", "lamp", "knife", "drone", "cable", "rug", "tent"]
MOODS = {"rug": "sad", "tent": "sad"}
TEXTS = [f"{product} {MOODS.get(product, 'calm')} {row}" for product in PRODUCTS for row in range(60)]
REQUEST = SearchRequest("kettle sad", instruction=MOOD, mode="dense", k=5)


@pytest.fixture
def question():
    return FakeEncoder("question")


@pytest.fixture
def open_index(tmp_path, question):
    made = []

    def opened(**options):
        chosen = SearchOptions(token_budget=1200, prompt_tokens=10, candidates=40, **options)
        index = Index(tmp_path / "index", encoder=question, plain=Products("plain"), search_options=chosen)
        made.append(index)
        if not made[1:]:
            index.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        question.forget()
        return index

    yield opened
    for index in made:
        index.close()


@pytest.mark.usefixtures("unjudged")
def test_rounds_go_on_until_the_hits_no_longer_change(open_index, question):
    first, *rounds = open_index(rounds=5).search_progressively(REQUEST)
    assert first.settling is None
    assert [result.settling.round for result in rounds] == list(range(1, len(rounds) + 1))
    assert 2 <= len(rounds) < 5
    assert [result.final for result in rounds] == [False] * (len(rounds) - 1) + [True]
    assert rounds[-1].settling.settled
    assert ids(rounds[-1]) == ids(rounds[-2])
    assert rounds[0].settling.changed is None
    assert rounds[-1].settling.changed == 0
    assert rounds[-1].settling.read == sum(len(call.texts) for call in question.passes)


def test_a_settled_search_reads_nothing_when_it_is_asked_again_and_gives_the_same_list(open_index, question):
    last = open_index(rounds=5).search_many([REQUEST])[0]
    index = open_index(rounds=5)
    (again,) = index.search_progressively(REQUEST)
    assert question.passes == []
    assert again.final
    assert [(hit.document.id, hit.fused) for hit in again.hits] == [(hit.document.id, hit.fused) for hit in last.hits]
    index.search("lamp sad", instruction=MOOD, mode="dense", k=5)
    assert question.passes  # another query has not settled


@pytest.mark.parametrize("judged", [True, False])
def test_what_a_search_will_read_is_known_from_its_first_text(tmp_path, monkeypatch, judged):
    if not judged:
        monkeypatch.setattr(rounds, "wants_judging", lambda store, view: False)
    seen = []
    options = SearchOptions(token_budget=1200, prompt_tokens=10, candidates=400, rounds=2)
    with Index(tmp_path / "index", encoder=RichEncoder(), plain=Products("plain"), search_options=options) as index:
        index.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        *_, last = index.search_progressively(REQUEST, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == last.settling.read
    (total,) = {total for _, total in seen}  # the most that it reads
    assert total - 5 <= last.settling.read <= total


@pytest.mark.usefixtures("unjudged")
def test_what_is_read_so_far_can_be_searched_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "QUICK", 0)
    options = SearchOptions(token_budget=1200, prompt_tokens=10, candidates=40, rounds=2)
    with Index(tmp_path / "index", encoder=RichEncoder(), plain=Products("plain"), search_options=options) as index:
        index.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        before, partly = index.search_stored(REQUEST), []

        def look(done, total):
            if done > rounds.KEPT_AT_ONCE * (1 + len(partly)):
                partly.append(index.search_stored(REQUEST))

        first, *_, last = index.search_progressively(REQUEST, look)
        assert (before.path, before.final, ids(before)) == ("base", False, ids(first))
        assert len(partly) >= 3
        assert {(result.path, result.final) for result in partly} == {("lazy", False)}
        assert len({tuple(ids(result)) for result in partly}) > 1
        settled = index.search_stored(REQUEST)
        assert (settled.final, ids(settled)) == (True, ids(last))


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize(("quick", "fewer"), [(float("inf"), True), (0, False)])
def test_a_quick_encoder_stores_more_texts_at_a_time(tmp_path, monkeypatch, quick, fewer):
    sizes, keep = [], OpenViews.keep

    def noted(self, index, sources, ids, on_tokens):
        sizes.append(len(ids))
        keep(self, index, sources, ids, on_tokens)

    monkeypatch.setattr(rounds, "QUICK", quick)
    monkeypatch.setattr(OpenViews, "keep", noted)
    options = SearchOptions(token_budget=2400, prompt_tokens=10, candidates=400, rounds=1)
    with Index(tmp_path / "index", encoder=RichEncoder(), plain=Products("plain"), search_options=options) as index:
        index.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        list(index.search_progressively(REQUEST, lambda done, total: None))
    assert sizes[0] == rounds.KEPT_AT_ONCE
    assert (max(sizes) > rounds.KEPT_AT_ONCE) == fewer


@pytest.mark.usefixtures("unjudged")
def test_a_look_at_what_is_stored_settles_nothing(open_index, question):
    index = open_index(rounds=2)
    next(index.search_progressively(REQUEST))
    for _ in range(2):
        assert not index.search_stored(REQUEST).final
    assert question.passes == []
    *_, last = index.search_progressively(REQUEST)
    assert last.settling.read > 0


@pytest.mark.usefixtures("unjudged")
def test_a_settled_search_gives_the_same_list_whatever_else_was_read(open_index, question):
    index = open_index(rounds=5)
    request = SearchRequest("kettle sad", instruction=MOOD, k=20)
    last = index.search_many([request])[0]
    for query in ("lamp angry", "knife calm"):
        index.search(query, instruction=MOOD)
    index.add([], instructions=[FAULT])
    question.forget()
    again = index.search_many([request])[0]
    assert (question.passes, again.path) == ([], "lazy")
    parts = [(hit.document.id, hit.score, hit.fused, hit.dense_rank, hit.lexical_rank, hit.words) for hit in last.hits]
    assert parts == [
        (hit.document.id, hit.score, hit.fused, hit.dense_rank, hit.lexical_rank, hit.words) for hit in again.hits
    ]


@pytest.mark.usefixtures("unjudged")
def test_a_settled_search_can_be_ranked_anew_by_all_that_was_read_since(open_index, question, tmp_path):
    index = open_index(rounds=1)
    request = SearchRequest("kettle sad", instruction=MOOD, mode="dense", k=70)
    before, state = index.search_many([request])[0], index.answer_state(MOOD)
    assert before.path == "lazy"
    index.upkeep.complete([MOOD], ids=[f"d{row:03}" for row in range(300, 419)])
    question.forget()
    peeked = index.search_anew(request)
    assert (peeked.path, peeked.final, ids(index.search_many([request])[0])) == ("lazy", True, ids(before))
    kept = index.search_anew(request, keep=True)
    assert ids(kept) == ids(peeked) != ids(before)
    assert ids(index.search_many([request])[0]) == ids(kept)
    assert question.passes == []
    index.upkeep.complete([MOOD])
    assert index.search_anew(request).path == "complete"
    assert ids(index.search_anew(request)) == ids(index.search_many([request])[0])
    assert index.answer_state(MOOD) == state
    index.delete(["d000"])
    assert index.answer_state(MOOD) != state


@pytest.mark.parametrize("sealed", [b"\0\0\0\0[[1, 2.0, 1, 1]]", zlib.crc32(b"[1]").to_bytes(4, "big") + b"[1]", b""])
def test_a_damaged_list_is_found_again(open_index, question, sealed):
    index = open_index(rounds=5)
    last = index.search_many([REQUEST])[0]
    index.close()
    with sqlite3.connect(index.path / DATABASE) as raw:
        assert (
            raw.execute("UPDATE settled SET search = CAST(substr(search, 1, 32) || ? AS BLOB)", (sealed,)).rowcount == 1
        )
    again = open_index(rounds=5).search_many([REQUEST])[0]
    assert ids(again) == ids(last)


@pytest.mark.usefixtures("unjudged")
def test_the_list_of_a_settled_search_is_not_that_of_other_weights(open_index):
    last, other = (open_index(rounds=5, plain_weight=weight).search_many([REQUEST])[0] for weight in (0.5, 3))
    assert [hit.fused for hit in last.hits] != [hit.fused for hit in other.hits]


def test_who_stops_at_the_final_answer_has_it_noted_too(open_index, question):
    answers = open_index(rounds=5).search_progressively(REQUEST)
    last = next(answer for answer in answers if answer.final)
    answers.close()
    question.forget()
    (again,) = open_index(rounds=5).search_progressively(REQUEST)
    assert (question.passes, ids(again)) == ([], ids(last))


def test_a_search_whose_rounds_are_used_up_reads_nothing_when_it_is_asked_again(open_index, question):
    last = open_index(rounds=1).search_many([REQUEST])[0]
    assert not last.settling.settled
    question.forget()
    again = open_index(rounds=1).search_many([REQUEST])[0]
    assert question.passes == []
    assert [(hit.document.id, hit.fused) for hit in again.hits] == [(hit.document.id, hit.fused) for hit in last.hits]


def test_new_documents_open_a_settled_search_again(open_index, question):
    index = open_index(rounds=5)
    list(index.search_progressively(REQUEST))
    index.add([Document("new", "kettle sad 99")])
    question.forget()
    *_, last = index.search_progressively(REQUEST)
    assert question.passes
    assert last.hits[0].document.id == "new"


def test_no_more_rounds_are_read_than_there_may_be(open_index):
    *_, last = open_index(rounds=1).search_progressively(REQUEST)
    assert last.settling.round == 1
    assert last.final
    assert not last.settling.settled


# A view that an older version left behind new documents is searched as it is; what it lacks is read once.


RNG = random.Random(5)
CORPUS = [Document(f"d{row:03}", f"{' '.join(RNG.sample(ALL_WORDS, 5))} {row}") for row in range(500)]
QUERIES = [" ".join(RNG.sample(ALL_WORDS, 4)) for _ in range(10)]
FIFTY = SearchOptions(rounds=1, token_budget=50 * (1 + 40 // 4 + 25), prompt_tokens=25)
"""A budget for some fifty of these texts."""


@pytest.fixture
def whole(tmp_path):
    """Give an index of all five hundred whose view is complete."""
    with Index(tmp_path / "whole", encoder=FakeEncoder()) as index:
        index.add(CORPUS, instructions=[MOOD])
        yield index


@pytest.fixture
def asked(tmp_path):
    """Give an index of three hundred whose view is complete."""
    with Index(tmp_path / "asked", encoder=FakeEncoder(), search_options=FIFTY) as index:
        index.add(CORPUS[:300], instructions=[MOOD])
        yield index


def ask(index, query, mode="hybrid"):
    return list(index.search_progressively(SearchRequest(query, instruction=MOOD, mode=mode)))


def hits(result):
    return [(hit.document.id, hit.score, round(hit.fused, 6)) for hit in result.hits]


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_one_new_document_is_read_and_all_else_stays(asked, tmp_path, mode):
    with Index(tmp_path / "all", encoder=FakeEncoder()) as complete:
        complete.add(CORPUS[:301], instructions=[MOOD])
        add_to_base(asked, CORPUS[300:301])
        asked._opened.sources.encoders.question.forget()
        first, last = ask(asked, QUERIES[0], mode)
        assert (first.path, last.path) == ("lazy", "complete")
        assert asked._opened.sources.encoders.question.read == [(CORPUS[300].text, MOOD)]
        others = [one for one in hits(last) if one[0] != CORPUS[300].id]
        assert [id for id, *_ in hits(first) if id != CORPUS[300].id][: len(others)] == [id for id, *_ in others]
        for query in QUERIES:
            assert hits(asked.search(query, instruction=MOOD, mode=mode)) == hits(
                complete.search(query, instruction=MOOD, mode=mode)
            )
        assert len(asked._opened.sources.encoders.question.read) == 1


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_many_new_documents_are_read_by_the_first_searches_and_none_is_read_twice(asked, whole, mode):
    add_to_base(asked, CORPUS[300:])
    asked._opened.sources.encoders.question.forget()
    paths, read = [], []
    for query in QUERIES:
        answers = ask(asked, query, mode)
        paths.append(answers[-1].path)
        read.append(len(asked._opened.sources.encoders.question.read))
        if paths[-1] == "complete":
            assert hits(answers[-1]) == hits(whole.search(query, instruction=MOOD, mode=mode))
    texts = asked._opened.sources.encoders.question.read
    assert len(set(texts)) == len(texts) == 200
    assert paths == ["lazy"] * (10 - paths.count("complete")) + ["complete"] * paths.count("complete")
    assert paths.count("complete") >= 5
    assert read[0] >= 40
    assert ask(asked, QUERIES[0], mode)[0].path == "complete"


def test_what_is_read_first_is_what_the_base_view_finds_nearest(asked):
    late = [Document("near", "kettle toy love hate"), *(Document(f"far{row}", f"nothing {row}") for row in range(60))]
    add_to_base(asked, late[::-1])
    asked._opened.sources.encoders.question.forget()
    ask(asked, "kettle toy love hate", "dense")  # alike under either instruction
    assert asked._opened.sources.encoders.question.read[0] == ("kettle toy love hate", MOOD)


def test_a_search_under_a_filter_reads_no_more_than_the_filter_allows(asked):
    add_to_base(asked, [Document(f"x{row}", f"toy love {row}", {"new": row % 2 == 0}) for row in range(20)])
    asked._opened.sources.encoders.question.forget()
    result = asked.search("love toy", instruction=MOOD, where="new = true", mode="dense")
    assert result.path == "complete"
    assert sorted(text for text, _ in asked._opened.sources.encoders.question.read) == sorted(
        f"toy love {row}" for row in range(0, 20, 2)
    )
    assert [view.coverage for view in asked.views()] == [1.0, pytest.approx(310 / 320, abs=1e-4)]


def test_a_view_that_lacks_most_is_not_filled_by_what_nobody_looks_for(tmp_path):
    options = SearchOptions(rounds=1, candidates=5)
    with Index(tmp_path / "index", encoder=FakeEncoder(), search_options=options) as index:
        index.add(CORPUS)
        first, last = ask(index, QUERIES[0])
        assert (first.path, last.path) == ("base", "lazy")
        assert 16 <= index.views()[1].vectors < 250


# What was read teaches which other texts to read.


@pytest.fixture
def read():
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(40, 12)).astype(np.float32)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    return plain, rng.normal(size=(40, 2)).astype(np.float32)


def scaled(part):
    centred = part - part.mean(axis=0)
    return centred / np.sqrt(np.square(centred).sum(axis=1).mean())


def test_what_is_predicted_is_what_ridge_regression_on_all_parts_together_predicts(read):
    plain, similarities = read
    other = np.random.default_rng(1).normal(size=(40, 7)).astype(np.float32)
    together = np.concatenate([scaled(plain), scaled(other)], axis=1)
    plainly = Ridge(alpha=REGULARISATION).fit(together, similarities).predict(together)
    found = directions([plain, other], similarities)
    predicted = sum(part @ rows.T for part, rows in zip([plain, other], found, strict=True))
    np.testing.assert_allclose(predicted - predicted.mean(axis=0), plainly - plainly.mean(axis=0), atol=1e-4)


def test_what_is_common_to_all_similarities_teaches_nothing(read):
    plain, similarities = read
    (first,), (second,) = directions([plain], similarities + 5), directions([plain], similarities)
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_few_texts_teach_nothing(read):
    plain, similarities = read
    assert not directions([plain[: FEWEST - 1]], similarities[: FEWEST - 1])[0].any()


def test_texts_that_are_all_alike_teach_nothing(read):
    _, similarities = read
    np.testing.assert_allclose(directions([np.ones((40, 3), np.float32)], similarities)[0], 0, atol=1e-6)


@pytest.mark.usefixtures("unjudged")
def test_what_was_read_draws_texts_the_query_would_not(tmp_path):
    # Sad are the rugs and tents alone, which the query says nothing of; of the texts it names none is.
    corpus = [Document(f"d{row:03}", text) for row, text in enumerate(TEXTS)]
    question, plain = FakeEncoder("question"), Products("plain")
    options = SearchOptions(rounds=1, token_budget=1200, prompt_tokens=10, candidates=40)
    with Index(tmp_path / "two", encoder=question, plain=plain, search_options=options) as index:
        index.add(corpus)
        index.search("kettle sad", instruction=MOOD, mode="dense")
        reads = [call.texts for call in question.passes]
        assert len(reads) == 2
        sad = [sum("sad" in text for text in texts) / len(texts) for texts in reads]
        assert sad[1] > 0.9 > 0.5 > sad[0] > 0
    alone = FakeEncoder("question")
    with Index(tmp_path / "one", encoder=alone, search_options=options) as index:
        index.add(corpus)
        alone.forget()
        index.search("kettle sad", instruction=MOOD, mode="dense")
        assert len(alone.passes) == 1


@pytest.mark.usefixtures("unjudged")
def test_a_view_of_another_instruction_that_has_every_text_teaches_too(tmp_path):
    # Of the mood the product says nothing and the fault everything.
    faults = {"sad": "leaks", "calm": "quiet"}
    moods = ["sad", *["calm"] * 5]
    texts = [f"{one} {moods[row % 6]} {faults[moods[row % 6]]} {row}" for one in PRODUCTS for row in range(60)]
    corpus = [Document(f"d{row:03}", text) for row, text in enumerate(texts)]
    options = SearchOptions(rounds=1, token_budget=1200, prompt_tokens=10, candidates=40)
    shares = []
    for name, asked in (("none", []), ("a part", []), ("all", [FAULT])):
        question, plain = FakeEncoder("question"), Products("plain")
        with Index(tmp_path / name, encoder=question, plain=plain, search_options=options) as index:
            index.add(corpus, instructions=asked)
            if name == "a part":
                index.search("kettle leaks", instruction=FAULT, mode="dense")
            question.forget()
            index.search("kettle sad", instruction=MOOD, mode="dense")
            _, second = (call.texts for call in question.passes)
            shares.append(sum("sad" in text for text in second) / len(second))
    assert shares[0] == shares[1] < 0.4 < 0.9 < shares[2]
