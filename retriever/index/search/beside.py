"""Let the base encoder have a say beside the instruction encoder, where an index has both.

Under an instruction texts are ordered by the instruction encoder's cosine plus a part of the base encoder's, each in
spreads of its own view (`Calibration.spread`): a convex combination of scores (Bruch et al., 2210.11934). The
instruction encoder follows the instruction; where it does not, the base encoder holds on to what the query says.

A query under a question is an answer: "stopped working" under "What broke?". It is read as it is. An instruction that
tells what to find, "Find reviews that complain about the food.", is a part of what is looked for, and stands before the
query.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retriever.core.requests import SearchRequest
from retriever.core.types import Embeddings, Ids
from retriever.index.search.rankings import Ranking, nearest
from retriever.index.search.view_searcher import LoadedView
from retriever.store.views import View

LEAST_WORDS = 3
"""Of an instruction that tells what to find."""

_FIND = frozenset("find show search get fetch collect return retrieve list select keep".split())
_BETWEEN = frozenset("me us for all any only please".split())
_ASKS = frozenset("out what which who whether how if the a an".split())
_RELATIVE = frozenset("that which who where with".split())
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Beside:
    """The queries of a request as the base encoder understands them.

    Attributes:
        view: the base view, which it fills.
        towards: what is searched for there (n, dim).
        rankings: what is nearest, query by query.
    """

    view: View
    towards: Embeddings
    rankings: Sequence[Ranking]


def tells_what_to_find(instruction: str) -> bool:
    """Return whether an instruction tells what texts to find, in English: "Find reviews that complain".

    "Find the topic" and "List what broke" ask something of each text, and do not.
    """
    words = [word for word in _WORD.findall(instruction.lower()) if word not in _BETWEEN]
    if len(words) < LEAST_WORDS or words[0] not in _FIND:
        return False
    return words[1] not in _ASKS or not _RELATIVE.isdisjoint(words[2:])


def plain_queries(queries: Sequence[str], request: SearchRequest) -> list[str]:
    """Return what the base encoder, where it has a say, reads for each query."""
    if request.instruction and tells_what_to_find(request.instruction):
        return [f"{request.instruction} {query}" for query in queries]
    return list(queries)


def nearest_beside(base: LoadedView, queries: Embeddings, depth: int, allowed: Ids | None) -> Beside:
    """Search the base view for the queries of a request, as `plain_queries` has them read (n, dim)."""
    towards = base.centred(queries)
    return Beside(base.view, towards, nearest(base, towards, depth, allowed))
