"""Count documents: those that a filter accepts, and how many have which value of a field."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from retriever.core.errors import UsageError
from retriever.core.fields import values_by_name
from retriever.index.open_index import OpenIndex
from retriever.store.filters import optional_filter, resolve_field


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of documents.

    Attributes:
        documents: all that the filter accepts.
        field: the field whose values were counted, by its whole name; None where none was asked for.
        values: documents by value, the most frequent first; an item of a list counts as a value.
        without: documents that have no value of the field.
    """

    documents: int
    field: str | None
    values: Mapping[str, int]
    without: int


def known_fields(index: OpenIndex) -> Mapping[str, str]:
    """Return the metadata fields that documents have, with their JSON paths."""
    return index.store.documents.fields()


def count_documents(index: OpenIndex, where: str | None = None, by: str | None = None) -> Counted:
    """Count the documents of an index.

    Args:
        index: the index.
        where: a filter over metadata; None for all documents.
        by: a metadata field whose values are counted.

    Raises:
        FilterError: the filter cannot be parsed, or names an unknown field.
        UsageError: no document has the field.
    """
    store = index.store
    if by is None and not (where or "").strip():
        return Counted(len(store.documents), None, {}, 0)
    fields = known_fields(index)
    field = None if by is None else resolve_field(by, fields)
    if field is not None and field not in fields:
        raise UsageError(f"No document has a field {by!r}.", hint=f"Fields: {', '.join(sorted(fields)) or 'none'}.")
    documents = store.documents.accepted(optional_filter(where))
    if field is None:
        return Counted(len(documents), None, {}, 0)
    counts: Counter[str] = Counter()
    without = 0
    for document in documents:
        value = values_by_name(document.metadata).get(field)
        items = value if isinstance(value, list) else [value]
        named = {str(item) for item in items if item is not None and not isinstance(item, dict | list)}
        counts.update(named)
        without += not named
    ordered = dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    return Counted(len(documents), field, ordered, without)
