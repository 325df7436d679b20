"""Documents by the clusters that their units are in: those with this topic and that one, or with either."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.core.errors import UsageError
from retriever.core.types import parent_of

_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_NOT = re.compile(r"not\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on the clusters that a document has a part in.

    Attributes:
        ways: any of them fulfils it; by cluster, whether the document has to have a part there or must not.
    """

    ways: Sequence[Mapping[int, bool]]

    @property
    def wanted(self) -> list[int]:
        """The clusters that a document may have a part in for this condition, in its order."""
        return list(dict.fromkeys(number for way in self.ways for number, there in way.items() if there))

    def holds(self, clusters: Sequence[int]) -> bool:
        """Return whether a document with parts in some clusters fulfils it."""
        return any(all((number in clusters) is there for number, there in way.items()) for way in self.ways)


def parse_having(document: Mapping[str, Any], expression: str) -> Having:
    """Parse a condition: clusters by number or name, joined by ``and`` and ``or``, where ``and`` binds closer.

    ``not`` before a cluster means that the document has no part in it: ``3 and 5``, ``battery or price``,
    ``3 and not 5``.

    Args:
        document: the documented JSON of a clustering.
        expression: the condition.

    Raises:
        UsageError: a part of it names no cluster.
    """
    clusters = document["clusters"]
    known = {str(one["label"]).casefold(): int(one["cluster"]) for one in clusters}
    known.update((str(one["cluster"]), int(one["cluster"])) for one in clusters)
    ways = []
    for way in _OR.split(expression.strip()):
        parts: dict[int, bool] = {}
        for part in _AND.split(way):
            name = _NOT.sub("", part, count=1) if _NOT.match(part) else part
            number = known.get(name.strip().casefold())
            if number is None:
                raise UsageError(
                    f"There is no cluster {name!r}.",
                    hint=f"Join numbers up to {len(clusters) - 1}, or names, by and, or, not: 0 and not 1.",
                )
            parts[number] = name is part
        ways.append(parts)
    return Having(ways)


def topics_of(document: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the clusters that each document has a part in, each once, by the documented JSON of a clustering."""
    whole, several = document.get("units") is None, document.get("places", {})
    found: dict[str, dict[int, None]] = {}
    for id, number in document["assignments"].items():
        numbers = dict.fromkeys(several.get(id, [number]))
        found.setdefault(id if whole else parent_of(id), {}).update(numbers)
    return {id: list(numbers) for id, numbers in found.items()}


def documents_having(document: Mapping[str, Any], having: Having) -> list[str]:
    """Return the ids of the documents that fulfil a condition, in the order of the clustering's documented JSON."""
    return [id for id, numbers in topics_of(document).items() if having.holds(numbers)]
