"""Results of the use cases: frozen values that know how to become the documented JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from retriever.core.errors import RetrieverError
from retriever.core.lessons import Lessons
from retriever.core.types import JSON, Document, Span
from retriever.core.verdicts import Verdict

Mode = Literal["auto", "dense", "lexical", "hybrid"]
SearchPath = Literal["base", "complete", "lazy"]

SCHEMA_VERSION = 1
"""Of the JSON that commands print with ``--json``, and of the files that hold it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One text found, as the first document, by id, that has it.

    Attributes:
        document: what was found.
        score: cosine with the query under the instruction; None where it was found by words alone.
        fused: what the order follows: the cosine, under an instruction less what is typical and with the base encoder's
            part; in mode hybrid with the words' part, which is all there is in mode lexical.
        words: what the model answered to the instruction for this document.
        percentile: of random pairs of the view's documents, how many in a hundred are less alike than query and hit;
            None where there is no score or the view has few vectors.
        dense_rank: its text's place in the ranking by the view's vectors, from 1; None where that does not hold it.
        lexical_rank: its text's place in the ranking by words.
        unit: its part that was found, the best, which score, words and ranks are of; None where it is embedded whole.
        equal: ids of the other documents with this text that the filter accepts, ascending.
        part: where in its text the part is that was found: that part's place, or that of the window of a long text that
            is nearer to the query than the whole. None where the whole was found, or words alone.
        rerank_score: what a reranker gave for the query and this text; None where none read it.
    """

    document: Document
    score: float | None
    fused: float
    words: Sequence[str] = ()
    percentile: float | None = None
    dense_rank: int | None = None
    lexical_rank: int | None = None
    unit: Document | None = None
    equal: Sequence[str] = ()
    part: Span | None = None
    rerank_score: float | None = None

    @property
    def passage(self) -> str:
        """The text that was found: the part, or the whole."""
        return self.document.text if self.part is None else self.document.text[self.part.start : self.part.end]

    @property
    def equal_json(self) -> dict[str, Any]:
        """The documented JSON object of the documents with the same text."""
        return {"count": len(self.equal), "ids": list(self.equal)}

    @property
    def unit_json(self) -> dict[str, Any] | None:
        """The documented JSON object of the part that is embedded by itself."""
        if self.unit is None or self.unit.part is None:
            return None
        part, span = self.unit.part, asdict(self.unit.part.span)
        return {"id": self.unit.id, "number": part.number, **span, "text": self.unit.text}

    @property
    def part_json(self) -> dict[str, Any] | None:
        """The documented JSON object of the part."""
        return None if self.part is None else {**asdict(self.part), "text": self.passage}


@dataclass(frozen=True, slots=True)
class Settling:
    """How far a search under an instruction has settled.

    Attributes:
        round: rounds of reading so far.
        read: texts read in them.
        changed: hits that were not among those of the round before; None after the first.
        settled: whether reading on changes nothing, or there is nothing left to read.
    """

    round: int
    read: int
    changed: int | None
    settled: bool


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """The answers in words that a filter over answers looks at: those that were known when the request began.

    Attributes:
        answers: distinct texts that have one.
        texts: distinct texts of the index.
    """

    answers: int
    texts: int

    @property
    def sentence(self) -> str:
        """The numbers, and what they mean for the result."""
        return f"The filter uses the known answers of {self.answers} of {self.texts} texts."


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one query.

    Attributes:
        query: the text asked for; empty where a regular expression stands alone.
        instruction: what it was asked under; None for nothing.
        view: id of the view that gave the scores; None for a lexical search.
        path: base (the default instruction's view), complete (the instruction's own view, which has every text that
            the filter allows) or lazy (the instruction's own view; what it lacks counts as less alike than all it has).
        mode: dense, lexical or hybrid.
        hits: best first.
        took_ms: wall-clock time.
        steps: K spent on the query; None where no query vector was made, or the encoder has no steps.
        verdict: whether the model follows the instruction; None without one, and as long as nobody has looked.
        final: whether no better answer comes after it.
        settling: how far it has settled; None where nothing was read for it.
        known_answers: the answers that its filter looks at; None where the filter asks for none.
        reader_fault: why the language model that serves the instruction, or the endpoint of an encoder, cannot be
            asked: hits are of what is stored, or of the words alone. None where it can, or need not.
        reranked_by: name of the reranker whose scores order the first hits; None where none does.
        rerank_fault: why a reranker that was asked for does not; None elsewhere.
    """

    query: str
    instruction: str | None
    view: int | None
    path: SearchPath
    mode: Mode
    hits: list[Hit]
    took_ms: float
    steps: int | None = None
    verdict: Verdict | None = None
    final: bool = True
    settling: Settling | None = None
    known_answers: KnownAnswers | None = None
    reader_fault: RetrieverError | None = None
    reranked_by: str | None = None
    rerank_fault: RetrieverError | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the hits' documents, best first."""
        return tuple(hit.document.id for hit in self.hits)

    @property
    def shown(self) -> "SearchResult":
        """This result as people see it: without the hits' words where its instruction is not answered.

        Words would look like answers there.
        """
        if self.verdict is None or self.verdict.answered:
            return self
        return replace(self, hits=[replace(hit, words=()) for hit in self.hits])

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "query": self.query,
            "instruction": self.instruction or "",
            "view": self.view,
            "path": self.path,
            "mode": self.mode,
            "steps": self.steps,
            "hits": [
                {
                    "rank": rank,
                    "id": hit.document.id,
                    "score": None if hit.score is None else round(hit.score, 6),
                    "fused": round(hit.fused, 6),
                    "rerank_score": None if hit.rerank_score is None else round(hit.rerank_score, 6),
                    "dense_rank": hit.dense_rank,
                    "lexical_rank": hit.lexical_rank,
                    "text": hit.document.text,
                    "unit": hit.unit_json,
                    "part": hit.part_json,
                    "metadata": dict(hit.document.metadata),
                    "words": list(hit.words),
                    "percentile": None if hit.percentile is None else round(hit.percentile, 2),
                    "equal": hit.equal_json,
                }
                for rank, hit in enumerate(self.hits, start=1)
            ],
            "took_ms": round(self.took_ms, 1),
            "settling": None if self.settling is None else asdict(self.settling),
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "known_answers": None if self.known_answers is None else asdict(self.known_answers),
            "reader_fault": None if self.reader_fault is None else str(self.reader_fault),
            "reranked_by": self.reranked_by,
            "rerank_fault": None if self.rerank_fault is None else str(self.rerank_fault),
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The time that a run takes, by how long its first texts took on this machine.

    Attributes:
        texts: that are read, about.
        instructions: that they are read under.
        seconds: from now on.
        plain: those of them that the base view takes; None where nothing else is left, or the base view is filled.
    """

    texts: int
    instructions: int
    seconds: float
    plain: float | None = None


@dataclass(slots=True)
class IndexingReport:
    """The result of an indexing run, counted as it goes.

    Attributes:
        read: rows stored or put aside, whole batches only.
        in_hand: rows reached, the batch under way counted by its share of texts embedded; texts where views are
            completed.
        added: documents that were new.
        updated: documents whose text or metadata changed.
        unchanged: documents that were there already.
        deleted: documents removed by ``--sync``.
        skipped: rows put in quarantine.
        truncated: texts that were embedded in this run and cut to the token limit.
        embedded: vectors computed, per view id.
        tokens: text tokens read for them; 0 where the encoder does not tell.
        seconds: wall-clock time.
        views: ids of the views that were filled.
        instructions: what those answer, in the same order; empty for the base view.
        notes: what the user should know besides.
        reading: what was recognised or changed on reading, a line per file.
        truncated_ids: of a document with each of the cut texts. Not in the JSON object, nor is what follows.
        expected: what ``in_hand`` grows to, where that is known.
        share: of all that is read now and judged after it, the part that is done, 0 to 1; None where nobody knows how
            much there is.
        judging: whether texts are read to tell if an instruction is followed, and not to be stored.
        tuning: whether the base encoder is fine-tuned on examples; ``in_hand`` counts steps then.
        rows: of the whole input, about; None where nobody knows.
        left: seconds that the rest takes, judging included; None as long as that is not measured.
        forecast: what the run takes, as it was known when it first was.
    """

    read: int = 0
    in_hand: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    skipped: int = 0
    truncated: int = 0
    embedded: dict[int, int] = field(default_factory=dict)
    tokens: int = 0
    seconds: float = 0.0
    views: list[int] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reading: list[str] = field(default_factory=list)
    truncated_ids: list[str] = field(default_factory=list)
    expected: int | None = None
    share: float | None = None
    judging: bool = False
    tuning: bool = False
    rows: int | None = None
    left: float | None = None
    forecast: Forecast | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        counts = asdict(replace(self, truncated_ids=[]))  # written with every batch: it must not grow with the corpus
        for name in ("truncated_ids", "expected", "share", "judging", "tuning", "rows", "left", "forecast"):
            del counts[name]
        return {
            "schema_version": SCHEMA_VERSION,
            **counts,
            "embedded": {str(view): count for view, count in self.embedded.items()},
            "seconds": round(self.seconds, 3),
        }


OnIndexing = Callable[[IndexingReport], None]
"""Called with a growing report; what it raises ends the work."""


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """One view of the index.

    Attributes:
        view: its id.
        instruction: what it answers; empty for the base view.
        pooling, steps, look_ahead, dtype, dim: those of `EncoderSpec`, as its vectors were made.
        vectors: texts that have one, or several.
        coverage: share of the distinct texts that have one; 1 for all of them alone.
        generation: id of the FAISS generation in use, if any.
        factory: FAISS factory string of that generation, where FAISS made it.
        recall: its recall@10 against exact search, measured when it was built.
        tail: vectors newer than the generation, searched exactly.
        last_used: UTC time, to the minute.
        encoder: what its vectors come from.
        bytes: of the vectors, those of windows among them, without words and vector indexes.
        lazy: whether it was filled by searches or for a part of the documents only; nobody asked for the whole view.
        backend: name of the vector backend that made the generation.
        taught: what examples taught of it; None where they taught nothing.
        verdict: whether the model follows the instruction; None of the base view, and as long as nobody has looked.
        windows: vectors of the windows of long texts, besides.
    """

    view: int
    instruction: str
    pooling: str
    steps: int | None
    look_ahead: int | None
    dtype: str
    dim: int
    vectors: int
    coverage: float
    generation: int | None
    factory: str | None
    recall: float | None
    tail: int
    last_used: str
    encoder: str
    bytes: int
    lazy: bool
    backend: str | None
    taught: Lessons | None = None
    verdict: Verdict | None = None
    windows: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {**asdict(self), "verdict": None if self.verdict is None else self.verdict.to_json()}


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The contents and state of an index.

    Attributes:
        path: its folder.
        encoder: what follows instructions, and fills the base view where there is no base encoder.
        documents: how many.
        texts: different ones that are embedded.
        size_bytes: of all files.
        views: the state of each.
        runs: the last ones, the latest first.
        quarantined: rows that the last `index` skipped.
        lazy: always None; what a lazy search reaches depends on the corpus, and is not told.
        vector_index: what vector indexes are built with: backend, location, factory, min_recall.
        plain: what fills the base view; None where ``encoder`` does.
        units: what is embedded of a document: ``documents``, which is itself, or ``sentences``.
        language: code of the language that words are searched in.
        unit_count: how many of them all documents have together.
        sent: texts and tokens, about, that language models were sent on all days: ``texts`` and ``tokens``.
        fields: of metadata, each with the types of its values: "dates", "lists of texts"; empty where all are null.
    """

    path: str
    encoder: Mapping[str, JSON]
    documents: int
    texts: int
    size_bytes: int
    views: list[ViewStatus]
    runs: list[dict[str, Any]]
    quarantined: list[dict[str, Any]]
    lazy: None = None
    vector_index: Mapping[str, JSON] = field(default_factory=dict)
    plain: Mapping[str, JSON] | None = None
    units: str = "documents"
    language: str = "en"
    unit_count: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        views = [view.to_json() for view in self.views]
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "views": views}
