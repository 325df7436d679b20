"""An encoder and an index as models of the `mteb` package (version 2), which is imported only when one is made.

`MtebEncoder` implements mteb's EncoderProtocol, `MtebSearch` its SearchProtocol:

    mteb.evaluate(MtebEncoder(encoder), tasks, cache=None)

The instruction comes from the task: a query's own where the data has one, else the task's prompt, else none, which is
the encoder's default. mteb's stock phrases for tasks without a prompt are not used.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retriever.core.contexts import Closing
from retriever.core.errors import InputError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.registry import resolve
from retriever.core.types import Document, Embeddings
from retriever.evaluation.metrics import encode_each
from retriever.evaluation.run.bench import IndexSearchPath
from retriever.evaluation.suites import SearchMode

_QUERY, _DOCUMENT = "query", "document"


TaskMetadata: TypeAlias = Any
"""`mteb.abstasks.task_metadata.TaskMetadata`, whose ``prompt`` is read: one instruction for the task, or one for
queries and one for documents."""

PromptType: TypeAlias = Any
"""`mteb.types.PromptType`, whose ``value`` is ``query`` or ``document``."""


class MtebEncoder:
    """An encoder as a model of mteb's tasks.

    Queries, and the texts of tasks without queries, are read under the task's instruction. Documents are read under
    the default one, unless the task's prompt has an entry for them: this is how mteb compares instructed embedders.
    An encoder with prompts of its own reads queries behind those of queries, and all other texts as documents.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @cached_property
    def mteb_model_meta(self) -> Any:  # noqa: ANN401 - an mteb.models.ModelMeta
        """Name, fingerprint and size, as mteb files its results under them."""
        return model_meta(self.encoder)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: PromptType | None = None,
        **options: object,
    ) -> Embeddings:
        """Return (n, dim) float32 rows of length 1, in the order of the batches.

        ``inputs`` are batches (a DataLoader) with ``text``, and for queries ``query`` and perhaps ``instruction``. The
        task's prompt is the instruction of texts without one; without a prompt type they are neither queries nor
        documents. mteb's ``batch_size`` is not used, batches are planned by length.
        """
        kind = None if prompt_type is None else prompt_type.value
        texts: list[str] = []
        instructions: list[str] = []
        for batch in inputs:
            given = batch.get("instruction") if kind == _QUERY else None
            own = batch["text"] if given is None else batch["query"]
            texts += own
            instructions += [task_instruction(task_metadata, kind)] * len(own) if given is None else list(given)
        return encode_each(self.encoder, texts, instructions, queries=kind == _QUERY)

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> NDArray[np.float32]:
        """Return the (n, m) cosines of the rows of one array with those of another."""
        return np.atleast_2d(_rows(embeddings1)) @ np.atleast_2d(_rows(embeddings2)).T

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> NDArray[np.float32]:
        """Return the (n,) cosines of rows that stand beside each other."""
        return np.asarray((_rows(embeddings1) * _rows(embeddings2)).sum(axis=-1))


class MtebSearch(Closing):
    """An index as a search model of mteb's retrieval, reranking and instruction retrieval tasks. A context manager.

    Every corpus goes into a temporary index and is searched as `IndexSearchPath` says. mteb breaks ties by descending
    id; scores that tie are told apart here, so that it sees the index's own order.
    """

    def __init__(self, encoder: Encoder, *, mode: SearchMode = "dense") -> None:
        self.encoder = encoder
        self.mode: SearchMode = mode
        self._search = IndexSearchPath(encoder)
        self._documents: list[Document] = []

    @cached_property
    def mteb_model_meta(self) -> Any:  # noqa: ANN401 - an mteb.models.ModelMeta
        """Name, fingerprint and size, as mteb files its results under them."""
        return model_meta(self.encoder, suffix=f"-{self.mode}")

    def index(self, corpus: Iterable[Mapping[str, Any]], **task: object) -> None:
        """Take a corpus with ``id``, ``text`` and perhaps ``title``; a document without text cannot be found.

        What mteb says of the task is not used: views wait for the queries' instructions.
        """
        documents = [Document(str(row["id"]), f"{row.get('title') or ''} {row['text']}".strip()) for row in corpus]
        self._documents = [document for document in documents if document.text]

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **task: object,
    ) -> dict[str, dict[str, float]]:
        """Return by query id the scores of the ``top_k`` documents found, of those alone that ``top_ranked`` names.

        Queries have ``id``, ``text`` and perhaps ``instruction``; the task's prompt is that of queries without one.

        Raises:
            UsageError: `index` was not called.
            InputError: a query is a conversation.
        """
        if not self._documents:
            raise UsageError("There is no corpus to search.", hint="Call index first.")
        rows = list(queries)
        default = task_instruction(task_metadata, _QUERY)
        rankings = self._search(
            self._documents,
            [_query_text(row) for row in rows],
            instructions=[row.get("instruction") or default for row in rows],
            mode=self.mode,
            k=top_k if top_ranked is None else len(self._documents),
        )
        results: dict[str, dict[str, float]] = {}
        for row, ranking in zip(rows, rankings, strict=True):
            candidates = None if top_ranked is None else set(top_ranked.get(row["id"], ()))
            kept = [hit for hit in ranking if candidates is None or hit[0] in candidates][:top_k]
            falling = _strictly_falling(score for _, score in kept)
            results[str(row["id"])] = dict(zip((document for document, _ in kept), falling, strict=True))
        return results

    def close(self) -> None:
        """Remove the temporary indexes."""
        self._search.close()


def task_instruction(task_metadata: TaskMetadata, kind: str | None) -> str:
    """Return the instruction that a task's prompt gives to queries, to documents, or to texts that are neither.

    A prompt that is one sentence is for queries and for tasks without them; documents have theirs only where the prompt
    is a mapping that names it.
    """
    prompt = task_metadata.prompt
    if isinstance(prompt, Mapping):
        return prompt.get(kind or _QUERY) or ""
    return "" if kind == _DOCUMENT else prompt or ""


def model_meta(encoder: Encoder, *, suffix: str = "") -> Any:  # noqa: ANN401 - an mteb.models.ModelMeta
    """Build mteb's metadata of a model: the name it was loaded by, its fingerprint as revision, its dimension.

    Raises:
        RetrieverError: mteb is not installed.
    """
    meta = resolve("mteb.models.model_meta:ModelMeta", package="mteb")
    scoring = resolve("mteb.models.model_meta:ScoringFunction", package="mteb")
    name = encoder.spec.label
    return meta.create_empty(
        overwrites={
            "name": f"retriever/{name.strip('/').replace('/', '__')}{suffix}",
            "revision": encoder.fingerprint[:40],
            "embed_dim": encoder.dim,
            "max_tokens": encoder.spec.max_text_tokens,
            "similarity_fn_name": scoring.COSINE,
            "use_instructions": True,
        }
    )


def _strictly_falling(scores: Iterable[float]) -> list[float]:
    """Return falling scores in single precision, each below the one before it, so that no tie is left to break."""
    falling, lowest = [], np.float32(np.inf)
    for score in scores:
        lowest = min(np.float32(score), np.nextafter(lowest, np.float32(-np.inf)))
        falling.append(float(lowest))
    return falling


def _query_text(row: Mapping[str, Any]) -> str:
    text = row["text"]
    if not isinstance(text, str):
        raise InputError(f"The query {row['id']!r} is a conversation.", hint="Only queries of one text are searched.")
    return text


def _rows(embeddings: ArrayLike) -> NDArray[np.float32]:
    return np.asarray(embeddings, dtype=np.float32)
