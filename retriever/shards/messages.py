"""What a router and a shard say to each other: plain values, which any transport can carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from retriever.core.errors import RetrieverError
from retriever.core.types import JSON, BadRow, Document, Embeddings, Neighbours
from retriever.store.checking import CheckedDocument
from retriever.store.filter_tree import Compiled
from retriever.store.filters import Filter
from retriever.store.vectors import StoredVectors, VectorRevision
from retriever.store.views import View, ViewKey


@dataclass(frozen=True, slots=True)
class ShardState:
    """What a shard holds, in one state of its database.

    Attributes:
        version: of its data; every question names the version it is about.
        batch: the last change that the router made to the shards together.
        documents: how many.
        texts: different ones that have a document.
        documents_revision: of the documents.
        fields: metadata fields and their JSON paths.
        views: as this shard knows them.
        settings: of the index, by name.
        last_content: the largest content id ever given here.
        last_vector: the largest vector id ever given here.
        folder: where it lies, absolute.
        identity: of its database.
    """

    version: int
    batch: int
    documents: int
    texts: int
    documents_revision: int
    fields: Mapping[str, str]
    views: Sequence[View]
    settings: Mapping[str, JSON]
    last_content: int
    last_vector: int
    folder: str
    identity: str


@dataclass(frozen=True, slots=True)
class PartOfView:
    """What a shard holds of a view.

    Attributes:
        revision: of its vectors.
        vectors: how many, those of texts without a document included.
        size: how many can be searched, likewise.
        held: how many texts with a document have one.
    """

    revision: VectorRevision
    vectors: int = 0
    size: int = 0
    held: int = 0


NOTHING = PartOfView(VectorRevision(0, 0))
"""Of a view that a shard does not know."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter with the fields of the whole corpus: a shard may hold no document that has one of them."""

    where: Filter
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Bound(Filter):
    """A filter that goes by given fields, whatever a database says it has."""

    fields: Mapping[str, str] = field(default_factory=dict)

    def compile(self, fields: Mapping[str, str]) -> Compiled:
        return Filter(self.expression, self.root, self.contents).compile(self.fields)


def bound(condition: Condition) -> Filter:
    """Return the filter of a condition, to be asked of one shard's database."""
    where = condition.where
    return _Bound(where.expression, where.root, where.contents, condition.fields)


@dataclass(frozen=True, slots=True)
class NearestWanted:
    """A search in a view.

    Attributes:
        key: of the view.
        queries: (q, dim) vectors.
        k: contents wanted of each.
        condition: what has to be met; None for nothing.
        besides: contents whose vectors are wanted as well.
    """

    key: ViewKey
    queries: Embeddings
    k: int
    condition: Condition | None = None
    besides: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class NearestFound:
    """The nearest contents of a shard, and the vectors wanted besides."""

    neighbours: Neighbours
    besides: StoredVectors


@dataclass(frozen=True, slots=True)
class Expanded:
    """Documents by content, sorted by id, and the contents' vectors by view."""

    documents: Mapping[int, list[Document]]
    vectors: Mapping[ViewKey, StoredVectors]


@dataclass(frozen=True, slots=True)
class NewVectors:
    """Vectors to store.

    Attributes:
        key: of the view.
        content_ids: (n,) whose they are.
        vector_ids: n numbers that tell old from new in all shards.
        embeddings: (n, dim).
        words: the model's answers, n lists.
    """

    key: ViewKey
    content_ids: Sequence[int]
    vector_ids: Sequence[int]
    embeddings: Embeddings
    words: Sequence[Sequence[str]] | None


@dataclass(slots=True)
class Change:
    """What one shard writes in one transaction.

    Attributes:
        documents: to insert or update.
        new_ids: content ids of texts that are new, by hash.
        deletes: ids of documents to delete.
        keep: ids of the documents to keep, where all others go; None to keep all.
        vectors: to store.
        settings: to set.
        run: of the recorded run that the next two belong to.
        quarantine: rows to put aside.
        progress: the run's statistics.
    """

    documents: list[CheckedDocument] = field(default_factory=list)
    new_ids: dict[bytes, int] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)
    keep: frozenset[str] | None = None
    vectors: list[NewVectors] = field(default_factory=list)
    settings: dict[str, JSON] = field(default_factory=dict)
    run: int = 0
    quarantine: list[BadRow] = field(default_factory=list)
    progress: Mapping[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The answer of a shard whose data is of another version than the question is about."""

    version: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer of a shard that met an error the user should read."""

    error: RetrieverError


@dataclass(frozen=True, slots=True)
class Gone:
    """The answer for a shard that cannot be reached."""

    reason: str
