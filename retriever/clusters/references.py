"""How people and programs name clusters: by number, by name, or by a beginning that one name alone has.

In memory and in the database a cluster's number counts from 0, as rows of arrays do; wherever it is shown or named, it
counts from 1. This is where the two meet.
"""

import csv
from collections.abc import Mapping
from itertools import chain

from retriever.core.errors import UsageError

NONE = -1
"""The cluster of a document that fits none; it is shown as it is."""


def ordinal(number: int) -> int:
    """Return a cluster's number, from 0, as it is shown: counted from 1; `NONE` stays."""
    return number if number == NONE else number + 1


def listed(labels: Mapping[int, str]) -> str:
    """Return clusters, names by number, as a list for people: ``1 (books), 2 (toys)``."""
    return ", ".join(f"{ordinal(number)} ({label})" for number, label in labels.items())


def find(named: str, labels: Mapping[int, str]) -> int:
    """Return the number, from 0, of the cluster that somebody named; capitals make no difference.

    Args:
        named: its number as it is shown, its name, or a beginning that no other name has.
        labels: names by number, of the clusters that are there.

    Raises:
        UsageError: it names none of them, or several.
    """
    wanted = " ".join(named.split()).casefold()
    if wanted.isdecimal() and int(wanted) - 1 in labels:
        return int(wanted) - 1
    names = {number: label.casefold() for number, label in labels.items()}
    meant = [number for number, name in names.items() if name == wanted]
    if not meant and wanted and not wanted.isdecimal():
        meant = [number for number, name in names.items() if name.startswith(wanted)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UsageError(
            f"Several clusters have names that begin with {named.strip()!r}.",
            hint=f"Write more of the name, or the number: {listed({number: labels[number] for number in meant})}.",
        )
    first = ": clusters count from 1" if wanted == "0" else ""
    raise UsageError(f"There is no cluster {named.strip()!r}{first}.", hint=f"There are: {listed(labels)}.")


def references(text: str) -> list[str]:
    """Return the clusters that a text names, separated by commas; a name with a comma stands in double quotes.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        return list(chain.from_iterable(csv.reader([text], skipinitialspace=True, strict=True)))
    except csv.Error:
        raise UsageError(
            f"{text!r} is no list of clusters.", hint="Separate them by commas: 3,5 or '\"bad, broken\",price'."
        ) from None
