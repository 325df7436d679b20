"""What metadata says of clusters: how a field's values spread over them, and how they grow over time."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retriever.core.errors import UsageError
from retriever.core.types import Document

MOST_VALUES = 20
OTHERS = "(others)"
MISSING = "(none)"


@dataclass(frozen=True, slots=True)
class Spread:
    """How the values of a field spread over one cluster.

    Attributes:
        counts: documents by value, the most frequent first; rare values of the corpus stand together.
        entropy: of the shares over the logarithm of the number of values in the corpus: 0 where the cluster has one
            value, 1 where all are equally frequent.
    """

    counts: Mapping[str, int]
    entropy: float


def spread(documents: Sequence[Document], labels: Sequence[int], k: int, field: str) -> list[Spread]:
    """Return how a field's values spread over every cluster.

    Args:
        documents: what was clustered.
        labels: cluster of every document.
        k: number of clusters.
        field: a metadata field; a dot leads into objects.

    Raises:
        UsageError: no document has the field.
    """
    values = _values(documents, field)
    named = [MISSING if value is None else str(value) for value in values]
    common = {value for value, _ in Counter(named).most_common(MOST_VALUES)}
    named = [value if value in common else OTHERS for value in named]
    kinds = len(set(named))
    found = []
    for number in range(k):
        counts = Counter(value for value, label in zip(named, labels, strict=True) if label == number)
        ordered = dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
        found.append(Spread(ordered, round(_entropy(counts) / math.log(kinds), 4) if kinds > 1 else 0.0))
    return found


def growth(documents: Sequence[Document], labels: Sequence[int], k: int, field: str) -> dict[str, list[int]]:
    """Return by month, oldest first, how many documents of every cluster (k,) fall into it.

    Args:
        documents: as for `spread`.
        labels: as for `spread`.
        k: as for `spread`.
        field: a metadata field with dates such as 2024-05-31, times behind them or not.

    Raises:
        UsageError: no document has the field, or a value is no date; the document is named.
    """
    months: dict[str, list[int]] = {}
    for document, value, label in zip(documents, _values(documents, field), labels, strict=True):
        if value is None:
            continue
        try:
            month = datetime.fromisoformat(str(value)).strftime("%Y-%m")
        except ValueError:
            raise UsageError(
                f"{field} of document {document.id!r} is {value!r}, which is no date.",
                hint="Dates are written as 2024-05-31.",
            ) from None
        months.setdefault(month, [0] * k)[label] += 1
    return dict(sorted(months.items()))


def _values(documents: Sequence[Document], field: str) -> list[Any]:
    found = [_value(document, field) for document in documents]
    if all(value is None for value in found):
        known = sorted({name for document in documents[:1000] for name in document.metadata})
        raise UsageError(f"No document has a field {field!r}.", hint=f"Fields: {', '.join(known) or 'none'}.")
    return found


def _value(document: Document, field: str) -> Any:  # noqa: ANN401 - metadata is any JSON
    if field in document.metadata:
        return document.metadata[field]
    value: Any = document.metadata
    for part in field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _entropy(counts: Counter[str]) -> float:
    total = counts.total()
    return sum(count / total * math.log(total / count) for count in counts.values())
