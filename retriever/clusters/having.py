"""Documents by the clusters that they have a part in: those with this topic and that one, or with either."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.clusters.clustering import Clustering
from retriever.core.errors import UsageError

_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_NOT = re.compile(r"not\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on the clusters that a document has a part in.

    Attributes:
        expression: as somebody wrote it.
        ways: any of them fulfils it; by cluster, whether the document has to have a part there or must not.
    """

    expression: str
    ways: Sequence[Mapping[int, bool]]

    @property
    def wanted(self) -> list[int]:
        """The clusters that a document may have a part in for this condition, in its order."""
        return list(dict.fromkeys(number for way in self.ways for number, there in way.items() if there))

    def holds(self, clusters: Sequence[int]) -> bool:
        """Return whether a document with parts in some clusters fulfils it."""
        return any(all((number in clusters) is there for number, there in way.items()) for way in self.ways)

    def documents(self, found: Clustering) -> list[str]:
        """Return the ids of the documents of a clustering that fulfil it, in its order."""
        return [id for id, numbers in found.topics.items() if self.holds(numbers)]

    def to_json(self, found: Clustering) -> dict[str, Any]:
        """Return the documented JSON object, with the documents of a clustering."""
        return {"expression": self.expression, "clusters": self.wanted, "documents": self.documents(found)}


def parse_having(found: Clustering, expression: str) -> Having:
    """Parse a condition: clusters by number or name, joined by ``and`` and ``or``, where ``and`` binds closer.

    ``not`` before a cluster means that the document has no part in it: ``3 and 5``, ``battery or price``,
    ``3 and not 5``.

    Args:
        found: the clustering.
        expression: the condition.

    Raises:
        UsageError: a part of it names no cluster.
    """
    known = {cluster.label.casefold(): cluster.number for cluster in found.clusters}
    known |= {str(cluster.number): cluster.number for cluster in found.clusters}
    ways = []
    for way in _OR.split(expression.strip()):
        parts: dict[int, bool] = {}
        for part in _AND.split(way):
            name = _NOT.sub("", part, count=1) if _NOT.match(part) else part
            number = known.get(name.strip().casefold())
            if number is None:
                raise UsageError(
                    f"There is no cluster {name!r}.",
                    hint=f"Join numbers up to {len(found.clusters) - 1}, or names, by and, or, not: 0 and not 1.",
                )
            parts[number] = name is part
        ways.append(parts)
    return Having(expression, ways)
