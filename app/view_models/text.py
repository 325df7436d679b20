"""Text for people. Reviews are anybody's words: what Streamlit would take for Markdown is escaped."""

from collections.abc import Sequence

from retriever.core.markdown import escape_markdown as plain

__all__ = ["NO_STAR", "STAR", "about", "count", "listed", "plain", "seconds", "size", "stars"]

STAR, NO_STAR = "★", "☆"


def stars(value: object, most: int = 5) -> str:
    """Return a rating as full and empty stars; nothing where it is no number from 0 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return ""
    return STAR * round(value) + NO_STAR * (most - round(value))


def count(number: int, one: str) -> str:
    """Return a number with its noun: 1 review, 1,204 reviews."""
    return f"{number:,} {one if number == 1 else one + 's'}"


def seconds(value: float) -> str:
    """Return a duration as a person says it: 42 s, 3 min 05 s, 2 h 10 min."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min {whole % 60:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def about(seconds: float) -> str:
    """Return a duration without false precision: half a minute, 12 minutes, 3 hours."""
    if seconds < 45:
        return "half a minute"
    minutes = max(1, round(seconds / 60))
    return count(minutes, "minute") if minutes < 90 else count(round(minutes / 60), "hour")


def size(number: int) -> str:
    """Return a number of bytes as a person says it: 820 kB, 1.4 GB."""
    value = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def listed(values: Sequence[str]) -> str:
    """Return values as a phrase: a, b and c."""
    return " and ".join(filter(None, [", ".join(values[:-1]), *values[-1:]]))
