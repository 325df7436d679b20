"""The contents of the page Corpus: the file at hand, and what an index holds."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from retriever.core.results import IndexingReport
from retriever.core.text import about
from retriever.index.profiling import Columns, Profile, iso_date, star_value
from retriever_app import text
from retriever_app.pages.corpus.job import Preview

NO_COLUMN = ""
SENTENCES_HELP = (
    "For reviews about several things: embeds, finds and clusters every sentence by itself, and marks it in its "
    "review. It takes longer. Without it, a review is embedded whole and belongs to one cluster."
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
SEEN_SECONDS = 5.0
"""Seconds after which a sentence on the page was seen: what the user does next takes it away."""
_PREVIEW_ROWS = 5


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


def time_line(reviews: int, instructions: int, rate: float | None, under: float | None) -> str:
    """Say how long an indexing takes, and what the instructions add to it; empty where that was never measured.

    A review takes ``rate`` seconds as it is and ``under`` seconds under an instruction; None where nobody knows.
    """
    if rate is None:
        return ""
    line = f"Indexing takes about {about(reviews * rate)}"
    if instructions and under is not None:
        added = text.count(instructions, "question")
        line += f", and the reading under {added} about {about(instructions * reviews * under)} more"
    return f"{line}. You can stop it and go on later."


def doubts(preview: Preview, columns: Columns) -> list[str]:
    """List the doubts that should be looked at before indexing."""
    result = []
    if not columns.text:
        result.append("Choose the column that holds the text of the reviews.")
    for role, read, kind in (("stars", star_value, "not ratings"), ("date", iso_date, "not dates")):
        values = [row[name] for row in preview.rows if (name := getattr(columns, role)) and row.get(name) is not None]
        unread = sum(read(value) is None for value in values)
        if unread:
            result.append(f"{unread} of the first {len(values)} values of {getattr(columns, role)!r} are {kind}.")
    if preview.bad:
        line, reason = preview.bad[0]
        result.append(f"{text.count(len(preview.bad), 'row')} cannot be read; the first, in line {line}: {reason}.")
    return result


def known_line(known: int, looked_at: int, index: str) -> str:
    """Describe how many of the first ids of a file are in the index already, and what becomes of those."""
    if not known:
        return ""
    return (
        f"{known:,} of the first {text.count(looked_at, 'id')} are in {index!r} already. Where text or fields differ, "
        "the reviews of this file replace those there."
    )


def report_line(report: IndexingReport, seconds: float) -> str:
    """Describe the result of an indexing, which took so long in all, with the loading of the model."""
    parts = [
        f"{text.count(report.added, 'review')} added",
        f"{report.updated:,} updated" if report.updated else "",
        f"{report.unchanged:,} unchanged" if report.unchanged else "",
        f"{text.count(report.skipped, 'row')} skipped" if report.skipped else "",
    ]
    return f"{', '.join(filter(None, parts))}, in {text.seconds(seconds)}."


def notes_label(report: IndexingReport) -> str:
    """Return in one line what the notes of an indexing are about."""
    if not report.truncated:
        return text.count(len(report.notes), "note")
    are = "text is" if report.truncated == 1 else "texts are"
    return f"{report.truncated:,} {are} longer than the model reads at once"


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


def profile_facts(profile: Profile) -> dict[str, str]:
    """Return the counts of a corpus by their labels; those it has none of are empty."""
    first, last = profile.days or ("", "")
    stars = sum(stars * count for stars, count in profile.stars.items()) / (sum(profile.stars.values()) or 1)
    return {
        "Reviews": f"{profile.documents:,}",
        "Duplicate texts": f"{profile.duplicates:,}",
        "Products": f"{len(profile.products):,}" if profile.products else "",
        "Categories": f"{len(profile.categories):,}" if profile.categories else "",
        "Mean stars": f"{stars:.1f}" if profile.stars else "",
        "From": first,
        "To": last,
    }


def star_counts(profile: Profile) -> dict[str, int]:
    """Return the reviews by stars, most stars first, gaps filled."""
    most = max(5, *profile.stars)
    scale = range(most, min(1, *profile.stars) - 1, -1)
    return {f"{stars} {text.STAR}": profile.stars.get(stars, 0) for stars in scale}


def product_counts(profile: Profile) -> dict[str, int]:
    """Return the reviews of the most frequent products, those beyond together."""
    named = list(profile.products.items())
    counts = dict(named[:MOST_PRODUCTS])
    rest = sum(count for _, count in named[MOST_PRODUCTS:])
    return {**counts, f"{len(named) - MOST_PRODUCTS} others": rest} if rest else counts


def length_counts(profile: Profile) -> dict[str, int]:
    """Return the reviews by length in words."""
    return {f"{least} to {most - 1}" if most else f"{least} or more": count for least, most, count in profile.lengths}
