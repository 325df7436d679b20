"""Describe clusters by metadata: how a field's values spread over them, and how they grow over time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log

from retriever.clusters.material import Material
from retriever.clusters.placing import Places
from retriever.core.errors import UsageError
from retriever.core.fields import names_of
from retriever.core.types import JSON, Document
from retriever.index.counting import values_of
from retriever.store.database import Store
from retriever.store.filters import resolve_field

MOST_VALUES = 20
OTHERS = "(others)"
MISSING = "(none)"


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of a field in one cluster.

    Attributes:
        counts: documents by value, the most frequent first; rare values of the corpus stand together. A document whose
            value is a list counts under each of its items.
        entropy: of the shares over the logarithm of the number of values in the corpus: 0 where the cluster has one
            value, 1 where all are equally frequent.
    """

    counts: Mapping[str, int]
    entropy: float


def field_values(store: Store, documents: Sequence[Document], field: str) -> list[JSON]:
    """Read a field's value from every document, dates as days, months or years; None where it has none.

    The last part of a field's name will do where it is unique.

    Raises:
        UsageError: no document has the field, or its last part belongs to several.
    """
    values = values_of(store, documents, resolve_field(field, store.documents.fields()))
    if all(value is None for value in values):
        known = sorted({name for document in documents[:1000] for name in document.metadata})
        raise UsageError(f"No document has a field {field!r}.", hint=f"Fields: {', '.join(known) or 'none'}.")
    return values


def spreads(store: Store, material: Material, places: Places, fields: Sequence[str], k: int) -> list[dict[str, Spread]]:
    """Count the values of fields in each of k clusters: of every whole document once in each that it has a part in.

    Errors as for `field_values`.
    """
    first: dict[tuple[str, int], int] = {}
    for row, (document, parent) in enumerate(zip(material.documents, material.parents, strict=True)):
        for number in places[document.id]:
            first.setdefault((parent, number), row)
    documents, labels = [material.documents[row] for row in first.values()], [number for _, number in first]
    counted = {field: spread(field_values(store, documents, field), labels, k) for field in fields}
    return [{field: by_cluster[number] for field, by_cluster in counted.items()} for number in range(k)]


def spread(values: Sequence[JSON], labels: Sequence[int], k: int) -> list[Spread]:
    """Count a field's values, as `field_values` gives them, in every cluster, with their normalised entropy."""
    every = [names_of(value) or [MISSING] for value in values]
    common = {name for name, _ in Counter(chain.from_iterable(every)).most_common(MOST_VALUES)}
    named = [{name if name in common else OTHERS for name in names} for names in every]
    kinds = len(set(chain.from_iterable(named)))
    spreads = []
    for number in range(k):
        inside = (names for names, label in zip(named, labels, strict=True) if label == number)
        counts = Counter(chain.from_iterable(inside))
        ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        shares = [count / counts.total() for count in counts.values()]
        entropy = sum(share * log(1 / share, kinds) for share in shares) if kinds > 1 else 0.0
        spreads.append(Spread(ordered, round(entropy, 4)))
    return spreads
