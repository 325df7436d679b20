"""A corpus with ties everywhere, an index of it, and the same in shards."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from index_fakes import ALL_WORDS, FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document, Encoded
from retriever.shards.index import ShardedIndex
from retriever.shards.splitting import shard_index
from retriever.workspace import Index

ASKED = ("", MOOD, FAULT)
WHERES = (None, None, "stars <= 2", "even = true", "stars = 5 and even = false", "late > 3 or stars = 1")
OPTIONS = SearchOptions(candidates=20, token_budget=60, prompt_tokens=1)


class UnevenEncoder(FakeEncoder):
    """A `FakeEncoder` whose numbers are no round ones, so that every sum has to be taken in the same order."""

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        mix = np.random.default_rng(5).normal(size=(16, 16)).astype(np.float32)
        found = super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)
        rows = [one.embeddings @ mix for one in found]
        return [
            replace(one, embeddings=(each / np.linalg.norm(each, axis=1, keepdims=True)).astype(np.float32))
            for one, each in zip(found, rows, strict=True)
        ]


@dataclass
class Twins:
    """One index, and the same documents in shards; what is done to one is done to the other."""

    single: Index
    sharded: ShardedIndex
    rng: random.Random
    ids: list[str]

    def add(self, rows: Sequence[Document]) -> None:
        """Add the same documents to both, and compare what each says of it."""
        reports = [index.add(rows) for index in (self.single, self.sharded)]
        told = [(one.added, one.updated, one.unchanged, one.embedded) for one in reports]
        assert told[0] == told[1]
        self.ids = sorted({*self.ids, *(row.id for row in rows)})

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the same documents from both."""
        assert self.single.delete(ids) == self.sharded.delete(ids)
        self.ids = sorted(set(self.ids).difference(ids))

    def compare(self, request: SearchRequest) -> str:
        """Ask both the same; return the path that the answer took. Shards give no verdict on a question."""
        ways = [list(index.search_progressively(request)) for index in (self.single, self.sharded)]
        assert len(ways[0]) == len(ways[1])
        for one, other in zip(*ways, strict=True):
            expected = [replace(each, took_ms=0, verdict=None) for each in one]
            assert [replace(each, took_ms=0) for each in other] == expected, request
        return ways[0][-1][0].path

    def change(self, new: int = 8) -> None:
        """Add, change and delete a few documents."""
        rows = [replace(text_of(self.rng), id=f"n{self.rng.randrange(10_000)}") for _ in range(new)]
        moved = [replace(text_of(self.rng), id=id) for id in self.rng.sample(self.ids, 4)]
        self.add([*rows, *moved])
        self.delete(self.rng.sample(self.ids, 5))

    def request(self) -> SearchRequest:
        """Draw a request."""
        rng = self.rng
        mode = rng.choice(["auto", "dense", "lexical", "hybrid"])
        return SearchRequest(
            [" ".join(rng.choices([*ALL_WORDS, "and", "well-known"], k=rng.randint(1, 5)))],
            rng.choice(ASKED),
            rng.choice([1, 3, 10, 40]),
            rng.choice(WHERES),
            mode,
        )


def text_of(rng: random.Random) -> Document:
    """Draw a document without an id of its own."""
    text = " ".join(rng.choices([*ALL_WORDS, "and", "well-known"], k=rng.randint(1, 6)))
    metadata = {"stars": rng.randint(1, 5), "even": rng.random() < 0.5}
    return Document("?", text, metadata | ({"late": rng.randint(1, 5)} if rng.random() < 0.05 else {}))


def corpus(rng: random.Random, n: int) -> list[Document]:
    """Draw documents with few distinct texts and ids in no order."""
    texts = [text_of(rng) for _ in range(2 * n // 3)]
    ids = rng.sample(range(10 * n), n)
    return [replace(rng.choice(texts), id=f"d{id}", metadata=text_of(rng).metadata | {"late": 1}) for id in ids]


def make(folder, *, n=240, parts=4, seed=1, kind=FakeEncoder, two=False, complete=(MOOD,), **options) -> Twins:
    """Make the twins: views of the base and of MOOD are whole, that of FAULT is filled by searches."""
    rng = random.Random(seed)
    rows = corpus(rng, n)
    encoders = {"encoder": kind("question"), **({"plain": kind("plain")} if two else {})}
    single = Index(folder / "single", search_options=OPTIONS, **encoders)
    single.add(rows, instructions=list(complete))
    shard_index(folder / "single", parts, folder / "shards")
    sharded = ShardedIndex(folder / "shards", search_options=OPTIONS, **encoders, **options)
    return Twins(single, sharded, rng, [row.id for row in rows])


assert set(KEYWORDS) == {PRODUCT, MOOD, FAULT}
