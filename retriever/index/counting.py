"""Count documents: those that a filter accepts, and how many have which value of a field."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retriever.core.errors import UsageError
from retriever.core.fields import names_of, values_by_name
from retriever.core.periods import as_periods
from retriever.core.types import JSON, Document
from retriever.index.filtering import request_filter
from retriever.index.opened import HasOpened, opened
from retriever.index.selection import require_fitting
from retriever.store.database import Store
from retriever.store.filters import resolve_field


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of documents.

    Attributes:
        documents: all that the filter accepts.
        field: the field whose values were counted, by its whole name; None where none was asked for.
        values: documents by value, the most frequent first; an item of a list counts as a value, and dates count as
            days, months or years.
        without: documents that have no value of the field.
    """

    documents: int
    field: str | None
    values: Mapping[str, int]
    without: int


def values_of(store: Store, documents: Sequence[Document], field: str) -> list[JSON]:
    """Return what every document has in a field, given by its whole name, as it is counted; None for nothing.

    Where the field holds dates, as filters see it, these are days, months or years.
    """
    values = [values_by_name(document.metadata).get(field) for document in documents]
    return as_periods(values) if store.documents.types.holds_dates(store.documents.fields()[field]) else values


def count_documents(index: HasOpened, where: str | None = None, by: str | None = None) -> Counted:
    """Count the documents that a filter over metadata accepts, None for all, and those of each value of a field.

    Raises:
        FilterError: the filter cannot be parsed, names an unknown field, or compares one with values of another type.
        UsageError: no document has the field.
    """
    store = opened(index).store
    if by is None and not (where or "").strip():
        return Counted(len(store.documents), None, {}, 0)
    fields = store.documents.fields()
    field = None if by is None else resolve_field(by, fields)
    if field is not None and field not in fields:
        raise UsageError(f"No document has a field {by!r}.", hint=f"Fields: {', '.join(sorted(fields)) or 'none'}.")
    condition = request_filter(store, where)
    documents = list(store.documents.accepted(condition))
    if not documents:
        require_fitting(store, condition)
    if field is None:
        return Counted(len(documents), None, {}, 0)
    counts: Counter[str] = Counter()
    without = 0
    for named in map(names_of, values_of(store, documents, field)):
        counts.update(named)
        without += not named
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return Counted(len(documents), field, ordered, without)
