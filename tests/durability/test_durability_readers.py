"""Four processes search while a fifth writes: every answer is that of one whole state, and none goes back in time.

A round brings every document a new text in one transaction; a second transaction deletes some. So an answer that mixes
two rounds, or holds part of what a transaction did, is none of the two states a round has.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from fuzzing import NIGHTLY
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, found

from retriever.core.types import Document
from retriever.workspace import Index

pytestmark = pytest.mark.durability
SECONDS = 120 if NIGHTLY else 10
READERS = 4
DOCUMENTS = 24  # fewer than a batch has: a round is one transaction
COMPACT_EVERY = 3
QUERY = "kettle love leaks"


def corpus(turn):
    """Return the documents of a round."""
    words = [ALL_WORDS[(row + turn) % len(ALL_WORDS)] for row in range(DOCUMENTS)]
    return [Document(f"d{row:02}", f"common {word} {turn}", {"round": turn}) for row, word in enumerate(words)]


def deleted(turn):
    """Return the ids that a round deletes at its end."""
    return [f"d{row:02}" for row in range(DOCUMENTS) if (row + turn) % 3 == 0]


def expected(turn, instruction, gone):
    """Return what a search for everything finds in a round, before or after its deletion."""
    encoder = FakeEncoder()
    left = [one for one in corpus(turn) if one.id not in gone]
    scores = encoder.vectors([one.text for one in left], instruction) @ encoder.vectors([QUERY], instruction)[0]
    return sorted(zip((one.id for one in left), scores.tolist(), strict=True), key=lambda one: (-one[1], one[0]))


def write(path, start, seconds):
    """Write rounds for some time; return how many there were."""
    start.wait()
    until, turn = time.monotonic() + seconds, 0
    with Index(path, encoder=FakeEncoder()) as index:
        while time.monotonic() < until or turn < COMPACT_EVERY:
            turn += 1
            index.add(corpus(turn), instructions=[MOOD])
            index.delete(deleted(turn))
            if turn % COMPACT_EVERY == 0:
                index.upkeep.repair()
    return turn


def read(path, start, seconds, reopens):
    """Search for some time; return how many answers there were, and those that were no whole state."""
    start.wait()
    until, answers, wrong, last = time.monotonic() + seconds, 0, [], 0
    index = Index(path, encoder=FakeEncoder())
    while time.monotonic() < until or answers < 6:
        if reopens and answers % 5 == 0:
            index.close()
            index = Index(path, encoder=FakeEncoder())
        instruction, mode = (("", "dense"), (MOOD, "dense"), ("", "lexical"))[answers % 3]
        query = "common" if mode == "lexical" else QUERY
        result = index.search(query, instruction=instruction, k=2 * DOCUMENTS, mode=mode)
        answers += 1
        turn = max([hit.document.metadata["round"] for hit in result.hits], default=-1)
        if turn < last or not is_whole(result, turn, instruction):
            wrong.append((instruction, mode, result.path, last, turn, found(result)))
        last = turn
    index.close()
    return answers, wrong


def is_whole(result, turn, instruction):
    states = [expected(turn, instruction, gone) for gone in ((), deleted(turn))]
    if result.mode == "lexical":
        return sorted(hit.document.id for hit in result.hits) in [sorted(id for id, _ in state) for state in states]
    texts = {one.id: one.text for one in corpus(turn)}
    return found(result) in states and all(hit.document.text == texts[hit.document.id] for hit in result.hits)


def test_four_readers_see_whole_states_while_one_writes(tmp_path, record_property):
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(corpus(0), instructions=[MOOD])
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(READERS + 1, mp_context=context) as pool:
        start = manager.Barrier(READERS + 1)
        writer = pool.submit(write, path, start, SECONDS)
        readers = [pool.submit(read, path, start, SECONDS, number % 2 == 0) for number in range(READERS)]
        rounds, results = writer.result(), [one.result() for one in readers]
    record_property("rounds", rounds)
    record_property("answers", [answers for answers, _ in results])
    assert [wrong for _, wrong in results] == [[]] * READERS
    assert rounds >= COMPACT_EVERY
