"""Documents by the clusters that they have a part in: those with this topic and that one, or with either."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.clusters.clustering import Clustering
from retriever.clusters.references import find, ordinal

_TOKEN = re.compile(r'"([^"]*)"|(\S+)')


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
        clusters = [ordinal(number) for number in self.wanted]
        return {"expression": self.expression, "clusters": clusters, "documents": self.documents(found)}


def parse_having(found: Clustering, expression: str) -> Having:
    """Parse a condition: clusters joined by ``and`` and ``or``, where ``and`` binds closer.

    A cluster goes by its number, counted from 1, by its name, or by a beginning that no other name has; a name with one
    of these words stands in double quotes. ``not`` before a cluster means that the document has no part in it:
    ``3 and 5``, ``battery or price``, ``3 and not 5``.

    Args:
        found: the clustering.
        expression: the condition.

    Raises:
        UsageError: a part of it names no cluster, or several.
    """
    labels = {cluster.number: cluster.label for cluster in found.clusters}
    ways: list[dict[int, bool]] = [{}]
    words: list[str] = []
    there = True
    for quoted, word in [*_TOKEN.findall(expression), ("", "and")]:
        if word.casefold() in ("and", "or"):
            ways[-1][find(" ".join(words), labels)] = there
            words, there = [], True
            if word.casefold() == "or":
                ways.append({})
        elif word.casefold() == "not" and there and not words:
            there = False
        else:
            words.append(quoted or word)
    return Having(expression, ways)
