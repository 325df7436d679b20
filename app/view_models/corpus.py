"""Describe the contents of the page about the corpus: the file at hand, the run that goes on, and the index."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from retriever.core.results import IndexingReport
from retriever.index.profiling import Columns, Profile, iso_date, star_value
from retriever_app.intake import Preview, TableSample
from retriever_app.view_models import text
from retriever_app.view_models.model import Fact

NO_COLUMN = ""
SENTENCES_HELP = (
    "For reviews that speak of several things: every sentence is read, found and grouped by itself, and shown "
    "marked in its review. It takes longer. Off, a review is read whole and is in one group."
)

ROLES = {
    "text": "Review text",
    "product": "Product",
    "category": "Category",
    "stars": "Stars",
    "date": "Date",
    "id": "Id",
}
MOST_PRODUCTS = 12
_PREVIEW_ROWS = 5
_READ, _ASKED = 100.0, 10.0  # reviews that two processor cores read a second: as they are, under an instruction


def index_name(file: str) -> str:
    """Return a name for the index of a file."""
    stem = PurePath(file).name.partition(".")[0]
    return stem[:64] or "reviews"


def preview_rows(preview: Preview, columns: Columns) -> list[dict[str, object]]:
    """Return the first rows as they will be understood: one column a role that is filled."""
    read = {"stars": star_value, "date": iso_date}
    rows = []
    for row in preview.rows[:_PREVIEW_ROWS]:
        shown: dict[str, object] = {}
        for role, label in ROLES.items():
            if name := getattr(columns, role):
                value = row.get(name)
                shown[label] = read[role](value) if role in read else value
        rows.append(shown)
    return rows


def time_line(reviews: int, instructions: int) -> str:
    """Say about how long an indexing takes, and what the instructions add to it."""
    plain = f"Reading them takes about {text.about(reviews / _READ)} on a machine like a laptop"
    if not instructions:
        return f"{plain}; they can be searched from then on."
    more = text.about(instructions * reviews / _ASKED)
    asked = text.count(instructions, "instruction")
    return f"{plain}, and {asked} about {more} more. It can be stopped and goes on later where it was."


def doubts(preview: Preview, columns: Columns) -> list[str]:
    """List the doubts that should be looked at before indexing."""
    found = []
    if not columns.text:
        found.append("Say which column holds the text of the reviews.")
    for role, read, what in (("stars", star_value, "no numbers of stars"), ("date", iso_date, "no dates we can read")):
        values = [row[name] for row in preview.rows if (name := getattr(columns, role)) and row.get(name) is not None]
        unread = sum(read(value) is None for value in values)
        if unread:
            found.append(f"{unread} of the first {len(values)} values of {getattr(columns, role)!r} are {what}.")
    if preview.bad:
        line, reason = preview.bad[0]
        found.append(f"{text.count(len(preview.bad), 'row')} cannot be read; the first, in line {line}: {reason}.")
    return found


def known_line(known: int, looked_at: int, index: str) -> str:
    """Describe how many of the first ids of a file are in the index already, and what becomes of those."""
    if not known:
        return ""
    return (
        f"{known:,} of the first {text.count(looked_at, 'id')} are in {index!r} already. Where text or fields differ, "
        "the reviews of this file take the place of those there."
    )


def progress_line(reading: TableSample | None, seconds: float) -> str:
    """Describe the progress of an indexing, in words."""
    if reading is None:
        return f"Loading the model … {text.seconds(seconds)}"
    of = f" of {reading.total:,}" if reading.total else ""
    left = f", about {text.seconds(reading.left)} left" if reading.left is not None else ""
    return f"{reading.rows:,}{of} reviews{left}"


def report_line(report: IndexingReport) -> str:
    """Describe the result of an indexing, in words."""
    parts = [
        f"{text.count(report.added, 'review')} added",
        f"{report.updated:,} updated" if report.updated else "",
        f"{report.unchanged:,} were there already" if report.unchanged else "",
        f"{text.count(report.skipped, 'row')} skipped" if report.skipped else "",
        f"{text.count(report.truncated, 'long review')} cut" if report.truncated else "",
    ]
    return f"{', '.join(filter(None, parts))}, in {text.seconds(report.seconds)}."


def skipped_rows(quarantined: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return the rows that the last indexing left out, as a table."""
    rows: list[dict[str, object]] = []
    for row in quarantined:
        file = str(row["file"])
        name = PurePath(file).name
        rows.append(
            {"line": row["line"], "why": str(row["reason"]).replace(file, name), "row": row["raw"], "file": name}
        )
    return rows


def profile_facts(profile: Profile) -> list[Fact]:
    """Return the counts of a corpus."""
    facts = [
        Fact("Reviews", f"{profile.documents:,}"),
        Fact("Texts that occur again", f"{profile.duplicates:,}"),
        Fact("Products", f"{len(profile.products):,}" if profile.products else ""),
        Fact("Categories", f"{len(profile.categories):,}" if profile.categories else ""),
        Fact("Stars on average", f"{mean_stars(profile):.1f}" if profile.stars else ""),
        Fact("From", profile.days[0] if profile.days else ""),
        Fact("To", profile.days[1] if profile.days else ""),
    ]
    return [fact for fact in facts if fact.value]


def mean_stars(profile: Profile) -> float:
    """Return the mean rating."""
    return sum(stars * count for stars, count in profile.stars.items()) / sum(profile.stars.values())


def star_rows(profile: Profile) -> list[dict[str, object]]:
    """Return the distribution of stars, most stars first, gaps filled."""
    most = max(5, *profile.stars)
    return [
        {"stars": f"{one} ★", "reviews": profile.stars.get(one, 0)}
        for one in range(most, min(1, *profile.stars) - 1, -1)
    ]


def month_rows(profile: Profile) -> list[dict[str, object]]:
    """Return reviews by month."""
    return [{"month": f"{month}-01", "reviews": count} for month, count in profile.months.items()]


def product_rows(profile: Profile) -> list[dict[str, object]]:
    """Return the most frequent products, those beyond together."""
    named = list(profile.products.items())
    rows: list[dict[str, object]] = [{"product": name, "reviews": count} for name, count in named[:MOST_PRODUCTS]]
    rest = sum(count for _, count in named[MOST_PRODUCTS:])
    return [*rows, {"product": f"{len(named) - MOST_PRODUCTS} others", "reviews": rest}] if rest else rows


def length_rows(profile: Profile) -> list[dict[str, object]]:
    """Return reviews by length in words."""
    return [
        {"words": f"{least} to {most - 1}" if most else f"{least} and more", "reviews": count}
        for least, most, count in profile.lengths
    ]
