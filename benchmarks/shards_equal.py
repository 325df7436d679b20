"""Whether shards answer as one index does: random searches in three views, between random additions and deletions.

Part of ``benchmarks/shards.py``. Texts are few words of few, many are equal, and texts that end alike have one vector,
so that ties are everywhere. One view is the base view, one is kept complete, one is filled by the searches themselves.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.shards.index import ShardedIndex
from retriever.workspace import Index

COMPLETE, LAZY = "What broke?", "Who is it for?"
VIEWS = ("", COMPLETE, LAZY)
OPTIONS = SearchOptions(candidates=60, token_budget=120, prompt_tokens=1)
WHERES = (None, None, "stars <= 2", "even = true", "stars = 5 and even = false", "late > 3 or stars = 1")
EVERY = 25
"""Searches between two changes of documents."""

_WORDS = [f"word{number}" for number in range(60)]


def random_document(rng: random.Random, id: str) -> Document:
    """Return a document whose text others may have too; few have the field ``late``."""
    text = " ".join(rng.choices(_WORDS, k=rng.randint(1, 8)))
    metadata: dict[str, Any] = {"stars": rng.randint(1, 5), "even": rng.random() < 0.5}
    return Document(id, text, metadata | ({"late": rng.randint(1, 5)} if rng.random() < 0.05 else {}))


def random_corpus(rng: random.Random, count: int) -> list[Document]:
    """Return documents with fewer texts than documents, and ids in no order."""
    numbers = rng.sample(range(10 * count), count)
    texts = [random_document(rng, "").text for _ in range(2 * count // 3)]
    found = [replace(random_document(rng, f"d{number}"), text=rng.choice(texts)) for number in numbers]
    found[0] = replace(found[0], metadata={**found[0].metadata, "late": 1})  # a field that a filter names
    return found


@dataclass
class Twins:
    """One index and the same documents in shards; what is done to one is done to the other.

    Attributes:
        single: the index in one folder.
        sharded: the shards.
        ids: of the documents that are there.
        rng: draws.
        changed: documents added, replaced and deleted.
        paths: answers by the path they took.
        different: searches that were answered otherwise.
    """

    single: Index
    sharded: ShardedIndex
    ids: list[str]
    rng: random.Random
    changed: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def change(self) -> None:
        """Add some documents, give others a new text, and delete some."""
        new = [random_document(self.rng, f"n{self.rng.randrange(10**9)}") for _ in range(self.rng.randint(1, 12))]
        moved = [random_document(self.rng, id) for id in self.rng.sample(self.ids, 4)]
        gone = self.rng.sample(self.ids, self.rng.randint(1, 8))
        reports = [index.add([*new, *moved]) for index in (self.single, self.sharded)]
        told = [(one.added, one.updated, one.unchanged, one.embedded) for one in reports]
        if told[0] != told[1] or self.single.delete(gone) != self.sharded.delete(gone):
            self.different.append(f"a change of documents: {told}")
        self.ids = sorted({*self.ids, *(one.id for one in new)} - set(gone))
        self.changed.update({"added": len(new), "replaced": len(moved), "deleted": len(gone)})

    def compare(self, request: SearchRequest) -> None:
        """Ask both the same; note where answers differ in more than their time and the verdict, which shards lack."""
        ways = [
            [[replace(one, took_ms=0, verdict=None) for one in step] for step in index.search_progressively(request)]
            for index in (self.single, self.sharded)
        ]
        self.paths[ways[0][-1][0].path] += 1
        if ways[0] != ways[1]:
            self.different.append(repr(request))

    def request(self) -> SearchRequest:
        """Return a random search."""
        rng = self.rng
        return SearchRequest(
            [" ".join(rng.choices(_WORDS, k=rng.randint(1, 5)))],
            rng.choice(VIEWS),
            rng.choice([1, 3, 10, 40]),
            rng.choice(WHERES),
            rng.choice(["auto", "dense", "lexical", "hybrid"]),
        )


def equality(single: Index, sharded: ShardedIndex, ids: Sequence[str], searches: int, seed: int) -> dict[str, Any]:
    """Compare so many searches; both hold the same documents and have the same options."""
    twins = Twins(single, sharded, sorted(ids), random.Random(seed))
    for number in range(searches):
        if number % EVERY == 0:
            twins.change()
        twins.compare(twins.request())
    views = {view.instruction: view.coverage for view in single.views()}
    return {
        "searches": searches,
        "documents": len(twins.ids),
        "by_path": dict(twins.paths),
        "changed": dict(twins.changed),
        "coverage": views,
        "different": len(twins.different),
        "first_different": twins.different[:3],
    }
