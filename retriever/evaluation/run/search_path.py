"""The search path that evaluations run on: an index in a folder of its own, searched as a user's would be.

Every mode goes through `Searcher`, so what is measured is FAISS, FTS5 and rank fusion as they are, and not only the
encoder. The lazy path is never taken: what it answers depends on what was searched before.
"""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from retriever.core.closing import Closing
from retriever.core.encoder import Encoder, WrappedEncoder
from retriever.core.errors import InputError, UsageError
from retriever.core.fingerprint import content_hash
from retriever.core.requests import SearchRequest
from retriever.core.types import Document, Encoded
from retriever.evaluation.suites import ScoredIds, SearchMode
from retriever.workspace import Index

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

        The ids of the documents differ; an empty instruction is the default one.

        Raises:
            UsageError: there are not as many instructions as queries.
            InputError: two documents share an id.
        """
        if len(instructions) != len(queries):
            raise UsageError(f"{len(queries)} queries have {len(instructions)} instructions.", hint="Give one a query.")
        groups: dict[str, list[int]] = {}
        for row, instruction in enumerate(instructions):
            groups.setdefault(instruction.strip(), []).append(row)
        asked = [one for one in groups if one]
        completes = mode != "lexical" and len(asked) <= MOST_VIEWS and len(queries) >= LEAST_QUERIES * len(asked)
        index = self._index(documents, asked if completes else [])
        rankings: list[ScoredIds] = [()] * len(queries)
        for instruction, rows in groups.items():
            for together in [rows] if mode != "auto" else [[row] for row in rows]:
                request = SearchRequest([queries[row] for row in together], k=k, mode=mode)
                for row, ranking in zip(together, self._search(index, request, instruction, completes), strict=True):
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
            _check_ids(documents)
            index = Index(Path(self._folder.name) / corpus[:16], encoder=self._encoder)
            index.add(documents, instructions=instructions)
            self._indexes[corpus], self._views[corpus] = index, set(instructions)
        if missing := [one for one in instructions if one not in self._views[corpus]]:
            self._indexes[corpus].add(documents, instructions=missing)
            self._views[corpus].update(missing)
        return self._indexes[corpus]

    def _search(self, index: Index, request: SearchRequest, instruction: str, completes: bool) -> list[ScoredIds]:
        """Return the rankings of queries that share an instruction."""
        if completes or not instruction:
            results = index.search_many(replace(request, instruction=instruction))
        else:
            encoder = _UnderInstruction(self._encoder, instruction)
            # Under an instruction, auto is hybrid; the searcher, which is not told of it, might go by words alone.
            request = replace(request, mode="hybrid" if request.mode == "auto" else request.mode)
            (results,) = index.searching(encoder).search(request)
        return [[(hit.document.id, hit.fused) for hit in result.hits] for result in results]


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
        asked = [self._instruction for _ in instructions]
        return super().encode_views(texts, asked, words=words, on_tokens=on_tokens)


def _corpus_hash(documents: Sequence[Document]) -> str:
    """Hash the ids and texts of a corpus in their order; 64 hex digits, equal for two corpora where these are."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(content_hash(document.id) + content_hash(document.text))
    return digest.hexdigest()


def _check_ids(documents: Sequence[Document]) -> None:
    seen: set[str] = set()
    for document in documents:
        if document.id in seen:
            raise InputError(f"Two documents have the id {document.id!r}.", hint="Ids are unique within a corpus.")
        seen.add(document.id)
