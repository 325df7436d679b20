"""Numbers of groups of an index's reviews: which of its fields hold stars and dates, and what is compared by them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from retriever.clusters.fields import field_values
from retriever.clusters.groups import Groups
from retriever.clusters.numbers import Numbers, count
from retriever.core.errors import UsageError
from retriever.core.fields import values_by_name
from retriever.core.periods import Period, fitting
from retriever.index.filtering import request_filter
from retriever.index.opened import HasOpened, opened
from retriever.index.profiling import Columns, iso_date, read_columns, star_value
from retriever.index.selection import nothing_matches, selected_documents
from retriever.store.filters import resolve_field


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers, the groups they are of, and the stars of each of their reviews; empty where no field holds them."""

    groups: Groups
    numbers: Numbers
    ratings: Sequence[float | None]

    @property
    def scale(self) -> float:
        """The highest rating there may be: 5, or 10 where some are higher."""
        return 5.0 if max(filter(None, self.ratings), default=0) <= 5 else 10.0


def numbers_of(
    index: HasOpened,
    groups: Groups,
    by: Sequence[str] = (),
    *,
    period: Period | None = None,
    stars: str | None = None,
    date: str | None = None,
    where: str | None = None,
) -> Counted:
    """Count groups of an index's reviews, or of their sentences: a review is where a part of it is.

    Args:
        index: that holds the reviews.
        groups: their groups.
        by: metadata fields whose values are compared, each with all other reviews; product, category, stars and date
            mean the fields that hold them.
        period: of the trend; None for the shortest that shows all of it.
        stars: the field with the ratings; None for the one that the index is known to have.
        date: the field with the days; None as for the stars.
        where: a filter over metadata: only reviews that it accepts are counted.

    Raises:
        InputError: no review matches the filter.
        UsageError: a field that was named is not there, or holds no ratings or days.
        FilterError: the filter cannot be parsed or names an unknown field.
    """
    groups, store = groups.by_document(), opened(index).store
    condition = request_filter(store, where)
    if condition is not None:
        groups = groups.only({document.id for document in selected_documents(store, condition, None)})
    if not groups.documents:
        raise nothing_matches(store, condition)
    known, columns = store.documents.fields(), read_columns(index)
    rating = columns.stars if stars is None else resolve_field(stars, known)
    written = columns.date if date is None else resolve_field(date, known)
    metadata = [values_by_name(document.metadata) for document in groups.documents]
    ratings = [star_value(values.get(rating)) for values in metadata] if rating else []
    days = [iso_date(values.get(written)) for values in metadata] if written else []
    if stars and all(value is None for value in ratings):
        raise UsageError(f"The field {stars!r} holds no ratings.", hint="Ratings are numbers from 0 to 10.")
    if (date or period) and not any(days):
        raise UsageError(
            f"The field {written!r} holds no dates." if written else "No field of these reviews holds dates.",
            hint="Name the one that does with --date; dates are written as 2024-05-31.",
        )
    segments = {name: field_values(store, groups.documents, _role(name, columns, known)) for name in by}
    unit = period or fitting(day for day in days if day)
    return Counted(groups, count(groups, ratings, segments=segments, days=days, unit=unit), ratings)


def check_fields(index: HasOpened, by: Sequence[str] = (), *others: str | None, where: str | None = None) -> None:
    """Refuse fields that no document has, before anything is read for them.

    Args:
        index: that holds the reviews.
        by: fields to compare by, as for `numbers_of`.
        *others: further ones; None for none.
        where: a filter.

    Raises:
        FilterError: a field is not there, its name belongs to several, or the filter cannot be parsed.
    """
    store = opened(index).store
    known, columns = store.documents.fields(), read_columns(index)
    for name in [*(_role(name, columns, known) for name in by), *filter(None, others)]:
        resolve_field(name, known)
    condition = request_filter(store, where)
    if condition is not None:
        condition.compile(known, store.documents.types.holds_dates)


def usual_segments(index: HasOpened) -> tuple[str, ...]:
    """Return the fields that reviews are compared by unless told: those with products and categories, where known."""
    columns = read_columns(index)
    return tuple(column for column in (columns.product, columns.category) if column)


def _role(name: str, columns: Columns, known: dict[str, str]) -> str:
    """Return the field that a name means: itself, or the one that holds what the name says."""
    roles = {field.name for field in fields(Columns)}
    return str(getattr(columns, name, "") or name) if name in roles and name not in known else name
