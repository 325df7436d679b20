"""Profile a corpus of reviews by counts: products, stars, dates, lengths, and texts that occur twice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import cast

from retriever.core.errors import FilterError
from retriever.core.fields import values_by_name
from retriever.core.languages import count_words
from retriever.core.periods import period_of
from retriever.core.types import JSON
from retriever.corpus.fields import Columns as Columns
from retriever.corpus.fields import recognise as recognise
from retriever.corpus.values import iso_date as iso_date
from retriever.corpus.values import star_value as star_value
from retriever.index.opened import HasOpened, opened
from retriever.store.filters import resolve_field

COLUMNS = "columns"
"""The setting in which an index keeps which of its fields hold what."""

_SAMPLE = 200
_LENGTHS = (10, 25, 50, 100, 200, 400)


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of a corpus; counts are of documents.

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


def read_columns(index: HasOpened) -> Columns:
    """Return which of an index's fields hold what: as it was set, else as its first documents look."""
    stored = opened(index).store.settings.get(COLUMNS)
    if isinstance(stored, dict):
        known, roles = opened(index).store.documents.fields(), {field.name for field in fields(Columns)}
        return Columns(**{role: _field(str(name), known) for role, name in stored.items() if name and role in roles})
    documents = opened(index).store.documents
    first = documents.get(list(islice(documents.ids(), _SAMPLE)))
    columns = recognise([values_by_name(document.metadata) for document in first.values()])
    return Columns(product=columns.product, category=columns.category, stars=columns.stars, date=columns.date)


def _field(name: str, known: Mapping[str, str]) -> str:
    """Return the field that a name means, as filters take it; the name itself where no document has one."""
    try:
        return resolve_field(name, known)
    except FilterError:
        return name


def set_columns(index: HasOpened, columns: Columns) -> None:
    """Keep with the index which of its fields hold what."""
    opened(index).store.settings.set(COLUMNS, cast("JSON", asdict(columns)))


def last_change(index: HasOpened) -> str:
    """Return a text that changes with every command, its progress, and a choice of columns; not with a search."""
    return repr((opened(index).store.runs.last(1), opened(index).store.settings.get(COLUMNS)))


def profile(index: HasOpened, columns: Columns) -> Profile:
    """Profile the contents of an index, in one state of it."""
    stars: Counter[int] = Counter()
    products: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    days: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    with opened(index).store.snapshot():
        for document in opened(index).store.documents.accepted():
            values = values_by_name(document.metadata)
            if (rating := star_value(values.get(columns.stars))) is not None:
                stars[int(rating + 0.5)] += 1
            if (day := iso_date(values.get(columns.date))) is not None:
                days[day] += 1
            _count(products, values.get(columns.product))
            _count(categories, values.get(columns.category))
            lengths[_bucket(count_words(document.text))] += 1
        documents, texts = len(opened(index).store.documents), opened(index).store.documents.count_texts()
    months: Counter[str] = Counter()
    for day, count in days.items():
        months[period_of(day, "month")] += count
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


def _count(counter: Counter[str], value: object) -> None:
    if isinstance(value, str | int) and not isinstance(value, bool):
        counter[str(value)] += 1


def _bucket(words: int) -> int:
    return sum(words >= least for least in _LENGTHS)
