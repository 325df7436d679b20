"""Tools of the tasks of an evaluation: an encoder that remembers what it has read, and a real search path.

Every mode of a search goes through `Searcher`, on an index in a folder of its own, so what is measured is FAISS, FTS5
and rank fusion as they are, and not only the encoder. The lazy path is never taken: what it answers depends on what was
searched before.
"""

import hashlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from retriever.core.contexts import Closing
from retriever.core.door import Door
from retriever.core.fingerprint import content_hash
from retriever.core.protocols import Encoder, WrappedEncoder
from retriever.core.requests import SearchRequest
from retriever.core.text import counted
from retriever.core.types import JSON, Document, Embeddings, Encoded
from retriever.evaluation.suites import ScoredIds, SearchMode
from retriever.index.encoding import view_key
from retriever.index.opened import opened as index_opened
from retriever.index.search.searcher import Searcher
from retriever.index.sources.catalog import Sources
from retriever.index.sources.encoders import Encoders, encoder_descriptions
from retriever.store.views import ViewKey
from retriever.workspace import Index

CHUNK_TEXTS = 256  # texts embedded between two reports of progress


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """The progress of one call of an encoder.

    Attributes:
        done: texts embedded by now, each counted once per instruction.
        total: texts that were missing.
        left: seconds the rest will take, judged by the lengths of the texts.
    """

    done: int
    total: int
    seconds: float
    left: float


class RememberingEncoder(WrappedEncoder):
    """An encoder that keeps every vector it has made, by view and text, as long as it lives.

    Words are not kept, and none are given: an evaluation needs none, and asking for them costs a pass of its own.
    ``on_progress`` is called after every chunk of texts embedded. A model behind an endpoint gets the texts, since it
    was named to be measured with them.
    """

    def __init__(self, encoder: Encoder, *, on_progress: Callable[[EmbeddingProgress], None] | None = None) -> None:
        super().__init__(encoder)
        self._on_progress = on_progress
        self._vectors: dict[ViewKey, dict[str, NDArray[np.float32]]] = defaultdict(dict)
        self._queries: dict[str, dict[str, NDArray[np.float32]]] = defaultdict(dict)  # by instruction
        self._key = cache(partial(view_key, encoder))
        self._cut: set[str] = set()

    @property
    def notes(self) -> list[str]:
        """A note on how many of the texts embedded were cut."""
        return [f"The encoder's limit cut {counted(len(self._cut), 'text')}."] if self._cut else []

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed what is not kept; texts that miss the same instructions share one pass. There are no words."""
        keys = [self._key(instruction) for instruction in instructions]
        instruction_of = dict(zip(keys, instructions, strict=True))
        missing: dict[tuple[ViewKey, ...], list[str]] = defaultdict(list)
        for text in dict.fromkeys(texts):
            if lacking := tuple(key for key in instruction_of if text not in self._vectors[key]):
                missing[lacking].append(text)
        self._read(missing, instruction_of)
        if on_tokens is not None:
            on_tokens(sum(self.count_tokens(texts)))
        return [Encoded(self._rows(key, texts), [[] for _ in texts]) for key in keys]

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed what is not kept; queries are texts unless the encoder has prompts."""
        if not self.spec.prompts:
            return super().encode_queries(queries, instruction=instruction)
        kept = self._queries[instruction.strip()]
        if missing := [query for query in dict.fromkeys(queries) if query not in kept]:
            kept.update(zip(missing, self._encoder.encode_queries(missing, instruction=instruction), strict=True))
        return np.array([kept[query] for query in queries], dtype=np.float32).reshape(len(queries), self.dim)

    def through(self, door: Door) -> Self:
        """Return this encoder, which sends texts as the encoder that was named to be measured does."""
        return self

    def known_as(self, description: Mapping[str, JSON]) -> Self:
        """Return this encoder, which made what is described."""
        return self

    def _read(self, missing: Mapping[tuple[ViewKey, ...], list[str]], instruction_of: Mapping[ViewKey, str]) -> None:
        """Embed the texts that lack vectors of some views, the longest first, and keep what comes of it."""
        started, done, worked = time.monotonic(), 0, 0
        total = sum(len(keys) * len(texts) for keys, texts in missing.items())
        work = sum(len(keys) * _work(texts) for keys, texts in missing.items())
        for keys, texts in missing.items():
            texts.sort(key=len, reverse=True)  # like beside like: batches without padding
            for start in range(0, len(texts), CHUNK_TEXTS):
                chunk = texts[start : start + CHUNK_TEXTS]
                encoded = self._encoder.encode_views(chunk, [instruction_of[key] for key in keys])
                for key, view in zip(keys, encoded, strict=True):
                    self._vectors[key].update(zip(chunk, view.embeddings, strict=True))
                self._note_cut(chunk)
                done, worked = done + len(keys) * len(chunk), worked + len(keys) * _work(chunk)
                if self._on_progress is not None:
                    seconds = time.monotonic() - started
                    self._on_progress(EmbeddingProgress(done, total, seconds, seconds * (work - worked) / worked))

    def _note_cut(self, texts: Sequence[str]) -> None:
        limit = self.spec.max_text_tokens
        if limit is not None:
            counts = zip(texts, self.count_tokens(texts), strict=True)
            self._cut.update(text for text, count in counts if count > limit)

    def _rows(self, key: ViewKey, texts: Sequence[str]) -> Embeddings:
        return np.array([self._vectors[key][text] for text in texts], dtype=np.float32).reshape(len(texts), self.dim)


def _work(texts: Sequence[str]) -> int:
    return sum(1 + len(text) for text in texts)


MOST_VIEWS = 16  # most instructions in one call whose views are completed

LEAST_QUERIES = 4  # queries an instruction must have on average for its view to be worth completing


class IndexSearchPath(Closing):
    """Searches any corpus through a temporary index; implements `retriever.evaluation.suites.SearchPath`.

    A corpus is indexed once, whatever modes and instructions it is searched with, and each of its views is completed
    once. How an instruction is searched depends on the instructions and queries of the call alone:

    - Few instructions with many queries each (at most `MOST_VIEWS`, at least `LEAST_QUERIES` queries an instruction):
      the views of the instructions are completed and searched, as after ``retriever index --instruction``. Documents
      and queries are read under the instruction.
    - Otherwise, as where every query has its own: queries are read under their instruction and compared with the base
      view, whose documents are read under the default instruction. This is how InstructIR and FollowIR are run.

    An encoder that follows instructions in queries has no views of instructions, and searches the base view.

    In mode auto every query is searched by itself, since the searcher chooses one mode for all queries of a request.
    What is written to the folder, by default the system's for temporary files, is removed by `close`.
    """

    def __init__(self, encoder: Encoder, *, folder: Path | None = None) -> None:
        self._encoder = encoder
        self._folder = tempfile.TemporaryDirectory(prefix="retriever-evaluation-", dir=folder)
        self._indexes: dict[str, Index] = {}
        self._views: dict[str, set[str]] = {}

    def __call__(
        self,
        documents: Sequence[Document],
        queries: Sequence[str],
        *,
        instructions: Sequence[str],
        mode: SearchMode,
        k: int,
    ) -> list[ScoredIds]:
        """Return one ranking per query: k ids with the score they are ordered by, or all ids there are.

        The ids of the documents differ; every query has an instruction, an empty one is the default one.
        """
        groups: dict[str, list[int]] = {}
        for row, instruction in enumerate(instructions):
            groups.setdefault(instruction.strip(), []).append(row)
        distinct = [key for key in groups if key]
        completes = mode != "lexical" and len(distinct) <= MOST_VIEWS and len(queries) >= LEAST_QUERIES * len(distinct)
        in_queries = self._encoder.spec.prompts.instructed
        index = self._index(documents, distinct if completes and not in_queries else [])
        rankings: list[ScoredIds] = [()] * len(queries)
        for instruction, rows in groups.items():
            for together in [rows] if mode != "auto" else [[row] for row in rows]:
                requests = [SearchRequest(queries[row], instruction=instruction, k=k, mode=mode) for row in together]
                for row, ranking in zip(together, self._search(index, requests, completes or in_queries), strict=True):
                    rankings[row] = ranking
        return rankings

    def close(self) -> None:
        """Close the indexes and remove their folder."""
        for index in self._indexes.values():
            index.close()
        self._indexes.clear()
        self._views.clear()
        self._folder.cleanup()

    def _index(self, documents: Sequence[Document], instructions: Sequence[str]) -> Index:
        """Return the index of a corpus with its base view and the views of some instructions complete."""
        corpus = _corpus_hash(documents)
        if corpus not in self._indexes:
            index = Index(Path(self._folder.name) / corpus[:16], encoder=self._encoder)
            index.add(documents, instructions=instructions)
            self._indexes[corpus], self._views[corpus] = index, set(instructions)
        if missing := [instruction for instruction in instructions if instruction not in self._views[corpus]]:
            self._indexes[corpus].add(documents, instructions=missing)
            self._views[corpus].update(missing)
        return self._indexes[corpus]

    def _search(self, index: Index, requests: Sequence[SearchRequest], completes: bool) -> list[ScoredIds]:
        """Return the rankings of requests that differ in their query alone."""
        instruction = requests[0].instruction
        if completes or instruction is None:
            results = index.search_many(requests)
        else:
            opened, encoder = index_opened(index), _UnderInstruction(self._encoder, instruction)
            sources = Sources(opened.store, Encoders(encoder_descriptions(opened.store), question=encoder))
            searcher = Searcher(opened, lambda: sources, asks=False)
            queries = [request.query or "" for request in requests]
            (results,) = searcher.search(queries, replace(requests[0], instruction=None))
        return [
            [(id, hit.fused) for hit in result.hits for id in (hit.document.id, *hit.equal)][: requests[0].k]
            for result in results
        ]


class _UnderInstruction(WrappedEncoder):
    """An encoder that reads queries under one instruction whatever view they are for."""

    def __init__(self, encoder: Encoder, instruction: str) -> None:
        super().__init__(encoder)
        self._instruction = instruction

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        own = [self._instruction for _ in instructions]
        return super().encode_views(texts, own, words=words, on_tokens=on_tokens)

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        return super().encode_queries(queries, instruction=self._instruction)


def _corpus_hash(documents: Sequence[Document]) -> str:
    """Hash the ids and texts of a corpus in their order; 64 hex digits, equal for two corpora where these are."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(content_hash(document.id) + content_hash(document.text))
    return digest.hexdigest()
