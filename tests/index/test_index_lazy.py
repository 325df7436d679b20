import itertools
import random
from contextlib import ExitStack

import numpy as np
import pytest
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder, RichEncoder, documents, found, ids

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.index.search.calibration import USUAL_SPREAD
from retriever.workspace import Index

POINT = SearchOptions().word_weight * USUAL_SPREAD  # what one of BM25 is worth in a view of few vectors

PLAIN = FakeEncoder()


def answers(index, query, **options):
    """The answers of one query in the order they came."""
    return list(index.search_progressively(SearchRequest(query, instruction=MOOD, **options)))


@pytest.fixture
def thrifty(path):
    """Give an index whose lazy searches read so many tokens; the prompt around a text counts as one."""
    with ExitStack() as stack:
        yield lambda tokens: stack.enter_context(
            Index(
                path,
                encoder=RichEncoder(),
                search_options=SearchOptions(rounds=1, token_budget=tokens, prompt_tokens=1),
            )
        )


def test_first_the_base_answer_then_the_one_under_the_instruction(index, encoder):
    index.add(documents("toy sad", "toy love", "lamp love"))
    plain = index.search("love toy", mode="dense")
    first, second = answers(index, "love toy", mode="dense")
    assert (first.path, first.view, first.instruction, first.hits) == ("base", 1, MOOD, plain.hits)
    assert found(first) == [("a", 1), ("b", 1), ("c", 1 - 2 / 8)]
    # The order under the instruction.
    assert (second.path, second.view, second.mode) == ("complete", 2, "dense")
    assert found(second) == [("b", 1), ("c", 1), ("a", 1 - 2 / 8)]
    assert [hit.fused for hit in second.hits] == [1, 1, 1 - 2 / 8]
    assert [hit.words for hit in second.hits] == [["love"], ["love"], ["sad"]]
    assert 0 < first.took_ms < second.took_ms


def test_how_many_texts_a_search_has_read_is_told(rich):
    rich.add(documents("toy sad", "toy love", "lamp love hate"))
    read = []
    list(rich.search_progressively(SearchRequest("toy", instruction=MOOD), lambda *one: read.append(one)))
    assert read[-1] == (3, 3)
    assert [of for _, of in read] == [3] * len(read)
    assert [done for done, _ in read] == sorted({done for done, _ in read})


def test_the_words_have_their_say_in_a_lazy_hybrid_search(index):
    index.add(documents("toy sad", "toy love", "lamp love", "mug query hate"))
    *_, last = answers(index, "query toy love", mode="hybrid")
    lexical = {hit.document.id: hit.fused for hit in index.search("query toy love", mode="lexical").hits}
    assert list(lexical) == ["d", "b", "a", "c"]
    rankings = [["b", "c", "a", "d"], list(lexical)]
    fused = {hit.document.id: hit.score + POINT * lexical[hit.document.id] for hit in last.hits}
    assert {hit.document.id: hit.fused for hit in last.hits} == pytest.approx(fused, abs=1e-6)
    assert ids(last) == sorted(fused, key=lambda id: -fused[id])
    places = {hit.document.id: (hit.dense_rank, hit.lexical_rank) for hit in last.hits}
    assert places == {id: tuple(ranking.index(id) + 1 for ranking in rankings) for id in "abcd"}


def test_who_stops_at_the_first_answer_has_changed_nothing(index, encoder):
    index.add(documents("toy sad", "toy love"))
    encoder.forget()
    steps = index.search_progressively(SearchRequest("toy", instruction=MOOD))
    assert next(steps).path == "base"
    steps.close()
    assert (len(index.views()), encoder.read) == (1, [])


# "love" is the first keyword of its list as "kettle" is, so "love toy" under MOOD finds d in the base view; under the
# default instruction it finds b.
NARROW = documents("toy knife sad", "toy love", "lamp drone love", "kettle love")


NARROWLY = SearchOptions(rounds=1, candidates=1)
"""One candidate by the query under the default instruction, one under the given one."""


@pytest.fixture
def narrow(path, encoder):
    with Index(path, encoder=encoder, search_options=NARROWLY) as index:
        index.add(NARROW)
        encoder.forget()
        yield index


def test_new_vectors_are_kept(narrow, encoder):
    index = narrow
    result = index.search("love toy", instruction=MOOD, k=1, mode="dense")
    assert (result.path, found(result)) == ("lazy", [("b", 1)])
    assert sorted(encoder.read) == [("kettle love", MOOD), ("toy love", MOOD)]
    assert [view.coverage for view in index.views()] == [1.0, 0.5]
    encoder.forget()
    again = index.search("love toy", instruction=MOOD, k=1, mode="dense")
    assert (again.path, again.hits) == ("lazy", result.hits)
    assert (encoder.read, set(encoder.queries)) == ([], {"love toy"})


def test_what_a_lazy_search_read_completing_the_view_does_not_read_again(narrow, encoder):
    index = narrow
    index.search("love toy", instruction=MOOD, k=1, mode="dense")
    encoder.forget()
    report = index.add([], instructions=[MOOD])
    assert encoder.read == [("toy knife sad", MOOD), ("lamp drone love", MOOD)]
    assert report.embedded == {2: 2}
    result = index.search("love toy", instruction=MOOD, mode="dense")
    assert (result.path, result.view) == ("complete", 2)
    assert found(result) == [("b", 1), ("c", 1), ("d", 1), ("a", 1 - 2 / 8)]
    assert len(encoder.read) == 2


def test_a_search_that_read_everything_has_completed_the_view(index, encoder):
    index.add(documents("toy sad", "toy love"))
    assert [one.path for one in answers(index, "toy")] == ["base", "complete"]
    assert [one.path for one in answers(index, "toy")] == ["complete"]
    assert index.search("toy", instruction=f" {MOOD}\n", mode="dense").path == "complete"
    assert [view.coverage for view in index.views()] == [1.0, 1.0]


def test_no_more_is_read_than_the_budget_holds(thrifty):
    rich = thrifty(10)
    rich.add(documents("toy a", "toy lamp", "toy lamp mug", "toy lamp mug knife", "pan cable phone sofa rug bike"))
    encoder = rich._opened.sources.encoders.question
    encoder.forget()
    result = rich.search("toy", instruction=MOOD, mode="dense")
    assert encoder.read == [("toy a", MOOD), ("toy lamp", MOOD), ("toy lamp mug", MOOD)]  # 3 + 3 + 4
    assert [hit.score is None for hit in result.hits] == [False, False, False, True, True]
    assert [list(hit.words) for hit in result.hits[3:]] == [[], []]
    assert result.hits[3].document.id == "d"
    seen = [len(encoder.read)]
    for k in (11, 12, 13):  # each another search: the same one again reads nothing
        result = rich.search("toy", instruction=MOOD, mode="dense", k=k)
        seen.append(len(encoder.read))
    assert seen == [3, 4, 5, 5]
    assert result.path == "complete"


def test_a_long_text_costs_what_is_read_of_it(thrifty):
    rich = thrifty(10)
    rich.add(documents("toy " + "and " * 20, "toy lamp"))
    rich.search("toy", instruction=MOOD, mode="dense")
    assert rich.views()[1].vectors == 2


def test_a_text_over_the_budget_does_not_keep_the_others_from_being_read(thrifty):
    rich = thrifty(4)
    rich.add(documents("toy a a a a", "toy lamp", "toy lamp mug"))
    for k in (10, 11, 12):  # each another search: the same one again reads nothing
        rich.search("toy", instruction=MOOD, mode="dense", k=k)
    assert rich.views()[1].vectors >= 2


def test_every_query_gets_its_best_candidate_read(thrifty):
    rich = thrifty(6)
    rich.add(documents("toy love", "toy hate", "toy sad", "lamp love", "lamp hate"))
    encoder = rich._opened.sources.encoders.question
    encoder.forget()
    queries = ("toy slow", "lamp hot")
    last = rich.search_many([SearchRequest(query, instruction=FAULT, k=1, mode="dense") for query in queries])
    assert encoder.read == [("toy love", FAULT), ("lamp love", FAULT)]
    assert [ids(one) for one in last] == [["a"], ["a"]]  # no text names a fault: equal cosines, ascending ids
    assert [call.texts for call in encoder.calls if call.method == "query"] == [("toy slow", "lamp hot")]


def test_a_lazy_search_under_a_filter(index, encoder):
    moods = ["love", "hate", "sad", "calm"]
    index.add([Document(f"{row}", f"toy {moods[row % 4]} {row}", {"odd": bool(row % 2)}) for row in range(12)])
    encoder.forget()
    result = index.search("sad toy", instruction=MOOD, k=3, where="odd = true", mode="dense")
    assert (result.path, len(result.hits)) == ("complete", 3)  # of what the filter allows
    assert index.search("sad toy", instruction=MOOD, mode="dense", where="odd = false or odd = true").path == "complete"
    assert sorted(encoder.read[:6]) == sorted((f"toy {moods[row % 4]} {row}", MOOD) for row in range(1, 12, 2))
    assert all(hit.document.metadata["odd"] for hit in result.hits)
    assert len(index.search("toy", instruction=MOOD, k=50, where="odd = true").hits) == 6
    assert index.search("toy", instruction=FAULT, where="odd = true and odd = false").hits == []


def test_deleted_documents_are_not_read(index, encoder):
    index.add(documents("toy sad", "toy love", "toy hate"))
    index.delete(["b"])
    encoder.forget()
    assert sorted(ids(index.search("toy", instruction=MOOD))) == ["a", "c"]
    assert encoder.read == [("toy sad", MOOD), ("toy hate", MOOD)]


def test_documents_of_one_text_are_read_once_and_are_one_hit(index, encoder):
    index.add(documents("lamp sad", "toy love", "toy love"))
    encoder.forget()
    result = index.search("love toy", instruction=MOOD, mode="dense")
    assert found(result) == [("b", 1), ("a", 1 - 2 / 8)]
    assert list(result.hits[0].equal) == ["c"]
    assert sorted(encoder.read) == [("lamp sad", MOOD), ("toy love", MOOD)]


def test_like_a_document_lazily(index):
    index.add(documents("love toy", "hate toy", "love lamp"))
    result = index.search(like="a", instruction=MOOD, k=2)
    # After a, which is left out: under the default b, c; under the instruction c, b.
    assert (result.path, found(result)) == ("complete", [("c", 1), ("b", 1 - 2 / 8)])


def test_steps_change_the_query_and_no_document(rich):
    rich.add(documents("toy sad", "lamp love", "mug hate"))
    last = rich.search("hate love", instruction=MOOD, mode="dense", steps=1)  # knows love, not hate
    assert dict(found(last)) == {"a": 1 - 2 / 8, "b": 1, "c": 1 - 2 / 8}
    assert [(view.instruction, view.steps) for view in rich.views()] == [("", 16), (MOOD, 16)]
    result = rich.search("hate love", instruction=MOOD, mode="dense")
    assert (result.path, found(result)) == ("complete", [("b", 1 - 1 / 8), ("c", 1 - 1 / 8), ("a", 1 - 3 / 8)])
    again = rich.search("hate love", instruction=MOOD, mode="dense", steps=1)
    assert (again.path, dict(found(again))) == ("complete", dict(found(last)))


def plain_rank(scores, depth):
    """Positions by falling score, equal ones by position, with all that tie with the last."""
    order = sorted(range(len(scores)), key=lambda one: (-scores[one], one))
    return [one for one in order if scores[one] >= scores[order[min(depth, len(order)) - 1]]]


def plain_fusion(*rankings):
    fused = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            fused[one] = fused.get(one, 0.0) + 1 / (60 + rank)
    return sorted(fused, key=lambda one: (-fused[one], one))


def affordable(rows, texts, most):
    """The first of some texts that together have so many tokens, with a prompt of one each."""
    totals = itertools.accumulate(1 + len(texts[row].split()) for row in rows)
    return [row for row, total in zip(rows, totals, strict=True) if total <= most]


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize(("rows", "seed"), [(29, 0), (29, 1), (29, 2), (40, 3), (40, 4), (80, 5), (80, 6)])
def test_a_lazy_search_is_the_plain_recipe(path, rows, seed, mode):
    rng = random.Random(seed)
    depth, most, k = rng.randint(2, 6), rng.randint(10, 40) * (1 if rows < 30 else 9), rng.randint(1, 4)
    options = SearchOptions(rounds=1, candidates=depth, token_budget=most, prompt_tokens=1)
    texts = [f"{' '.join(rng.sample(ALL_WORDS, rng.randint(1, 4)))} {row}" for row in range(rows)]
    corpus = [Document(f"d{row:02}", text) for row, text in enumerate(texts)]
    query = " ".join(rng.sample(ALL_WORDS, 6))
    encoder = RichEncoder()
    with Index(path, encoder=encoder, search_options=options) as index:
        index.add(corpus)
        deep = max(depth, k + 1)
        by_words = [] if mode == "dense" else index.search(query, k=deep, mode="lexical").hits
        words = {int(hit.document.id[1:]): hit.fused for hit in by_words}
        encoder.forget()
        result = index.search(query, instruction=MOOD, k=k, mode=mode)

    depth, deep = max(depth, k if mode == "dense" else k + 1), k if mode == "dense" else max(depth, k + 1)
    base, own = PLAIN.vectors(texts), PLAIN.vectors(texts, MOOD)
    plain, asked = PLAIN.vectors([query])[0], PLAIN.vectors([query], MOOD)[0]
    by_plain = plain_rank((base @ plain).tolist(), depth)
    by_asked = plain_rank((base @ asked).tolist(), depth)
    candidates = plain_fusion(by_plain, by_asked, list(words))
    scattered = sorted(range(rows), key=lambda row: (row + 1) * 0x9E3779B97F4A7C15 % 2**64)  # contents count from 1
    typical = affordable(scattered[:16] if rows >= 30 else [], texts, most // 4)
    read = affordable(list(dict.fromkeys(typical + candidates)), texts, most)
    assert len(typical) >= 8 or rows < 30
    assert [text for text, _ in encoder.read] == [texts[one] for one in read]
    assert result.path == "lazy"
    first = next(place for place, row in enumerate(scattered) if row not in read)
    shown = [row for row in scattered if row in read] if len(read) >= rows / 2 else scattered[:first]
    mean = own[shown].mean(axis=0) if rows >= 30 else np.zeros(own.shape[1])
    common = (mean @ mean) * mean
    cosines = dict(zip(read, (own[read] @ asked).tolist(), strict=True))
    apart = dict(zip(read, (own[read] @ (asked - common)).tolist(), strict=True))
    held = sorted(read)
    instructed = [held[one] for one in plain_rank([apart[one] for one in held], deep)]
    unread = [one for one in plain_fusion(by_plain, by_asked) if one not in cosines]
    last = min(apart[one] for one in instructed)
    fused = {one: apart[one] for one in instructed} | {one: last - 1e-4 * (n + 1) for n, one in enumerate(unread)}
    fused = {one: apart.get(one, last) for one in words} | fused
    fused = {one: value + POINT * words.get(one, 0.0) for one, value in fused.items()}
    order = sorted(fused, key=lambda one: (-fused[one], one))[:k]
    hits = [int(hit.document.id[1:]) for hit in result.hits]
    assert [hit.score for hit in result.hits] == [cosines.get(one) for one in hits]
    if mode == "hybrid" and rows >= 30:  # rounding decides between equals, and so their ranks
        return
    assert [apart.get(one, one) for one in hits] == pytest.approx([apart.get(one, one) for one in order], abs=1e-6)
    assert rows >= 30 or hits == order
