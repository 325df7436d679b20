"""What a corpus of reviews is made of, counted: products, stars, dates, lengths, and texts that occur twice."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any, cast

from retriever.core.types import JSON, Document
from retriever.corpus.columns import Columns, iso_date, recognise, star_value
from retriever.services.workspace import Index

COLUMNS = "columns"
"""The setting in which an index keeps which of its fields hold what."""

_BATCH = 5000
_SAMPLE = 200
_LENGTHS = (10, 25, 50, 100, 200, 400)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a corpus holds; counts are of documents.

    Attributes:
        columns: the fields the counts are of.
        documents: all of them.
        texts: different texts.
        stars: by rating, rounded to whole stars, lowest first.
        products: by product, the most frequent first.
        categories: by category, the most frequent first.
        months: by month as 2024-05, oldest first.
        days: the first and the last date; None without dates.
        lengths: by length in words: ``(least, most, documents)``, the last without a most.
    """

    columns: Columns
    documents: int
    texts: int
    stars: Mapping[int, int]
    products: Mapping[str, int]
    categories: Mapping[str, int]
    months: Mapping[str, int]
    days: tuple[str, str] | None
    lengths: Sequence[tuple[int, int | None, int]]

    @property
    def duplicates(self) -> int:
        """Documents whose text another one has before them."""
        return self.documents - self.texts


def read_columns(index: Index) -> Columns:
    """Return which of an index's fields hold what: as it was set, else as its first documents look."""
    stored = index.store.settings.get(COLUMNS)
    if isinstance(stored, dict):
        known = {field.name for field in fields(Columns)}
        return Columns(**{name: str(value) for name, value in stored.items() if name in known})
    ids = list(islice(index.store.documents.ids(), _SAMPLE))
    found = recognise([flat(document.metadata) for document in index.store.documents.get(ids).values()])
    return Columns(product=found.product, category=found.category, stars=found.stars, date=found.date)


def set_columns(index: Index, columns: Columns) -> None:
    """Keep with the index which of its fields hold what."""
    index.store.settings.set(COLUMNS, cast("JSON", asdict(columns)))


def profile(index: Index, columns: Columns) -> Profile:
    """Return what an index holds, in one state of it."""
    stars: Counter[int] = Counter()
    products: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    days: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    with index.store.snapshot():
        for document in _documents(index):
            values = flat(document.metadata)
            if (rating := star_value(values.get(columns.stars))) is not None:
                stars[int(rating + 0.5)] += 1
            if (day := iso_date(values.get(columns.date))) is not None:
                days[day] += 1
            _count(products, values.get(columns.product))
            _count(categories, values.get(columns.category))
            lengths[_bucket(len(document.text.split()))] += 1
        documents, texts = len(index.store.documents), index.store.documents.count_contents()
    months: Counter[str] = Counter()
    for day, count in days.items():
        months[day[:7]] += count
    return Profile(
        columns=columns,
        documents=documents,
        texts=texts,
        stars=dict(sorted(stars.items())),
        products=dict(products.most_common()),
        categories=dict(categories.most_common()),
        months=dict(sorted(months.items())),
        days=(min(days), max(days)) if days else None,
        lengths=[
            (least, most, lengths[bucket])
            for bucket, (least, most) in enumerate(zip((0, *_LENGTHS), (*_LENGTHS, None), strict=True))
        ],
    )


def _documents(index: Index) -> Iterator[Document]:
    ids = index.store.documents.ids()
    while batch := list(islice(ids, _BATCH)):
        yield from index.store.documents.get(batch).values()


def flat(metadata: Mapping[str, JSON], prefix: str = "") -> dict[str, Any]:
    """Return the fields of a document by the names that filters know: nested keys joined with dots."""
    found: dict[str, Any] = {}
    for name, value in metadata.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _count(counter: Counter[str], value: object) -> None:
    if isinstance(value, str | int) and not isinstance(value, bool):
        counter[str(value)] += 1


def _bucket(words: int) -> int:
    return sum(words >= least for least in _LENGTHS)
