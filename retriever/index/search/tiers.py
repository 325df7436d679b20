"""Tiers of texts under a question that is answered in words: a text that answers it stands before those that do not.

"Not said" is as near to most queries as any other short phrase, so that cosines do not tell that it answers nothing;
nor do they tell that "not for children" denies "children". A tier goes before every score; within a tier the order and
the distances stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import groupby

import numpy as np

from retriever.core.types import Embeddings, Ids
from retriever.core.unanswered import empty_answer
from retriever.index.search.rankings import STEP, Answers, Part, Ranking, combined, nearest
from retriever.index.search.view_searcher import LoadedView


class Tier(IntEnum):
    """The state of a text's answer: whether it meets the query; OPEN where nobody read or judged it."""

    YES = 0
    PARTLY = 1
    OPEN = 2
    NO = 3
    EMPTY = 4


Tiers = Mapping[int, Tier]
"""Tiers by content id; what is not there is OPEN."""


def empty_tiers(view: LoadedView, query: str) -> dict[int, Tier]:
    """Return the tiers of the texts whose answer in a view is empty: the last, unless the query is such an answer."""
    sought = empty_answer(query)
    if sought is None:
        return dict.fromkeys(view.empty_answers, Tier.EMPTY)
    return {content: Tier.YES if empty == sought else Tier.PARTLY for content, empty in view.empty_answers.items()}


def tiered(ranking: Ranking, tiers: Tiers) -> Ranking:
    """Return a ranking with the texts of each tier before those of the next.

    >>> tiered(Ranking([1, 2, 3], [0.9, 0.8, 0.5]), {1: Tier.EMPTY, 3: Tier.YES}).ids
    [3, 2, 1]
    """
    rows = list(zip(ranking.ids, ranking.scores, strict=True))
    rows.sort(key=lambda row: tiers.get(row[0], Tier.OPEN))
    ids: list[int] = []
    scores: list[float] = []
    for _, group in groupby(rows, key=lambda row: tiers.get(row[0], Tier.OPEN)):
        tier = list(group)
        down = max(0.0, tier[0][1] - scores[-1] + STEP) if scores else 0.0
        ids += [content_id for content_id, _ in tier]
        scores += [score - down for _, score in tier]
    return Ranking(ids, scores)


def in_tiers(answers: Answers, queries: Sequence[str], view: LoadedView) -> Answers:
    """Return the answers to some queries with the texts whose answer in a view is empty behind the others."""
    return with_tiers(answers, [empty_tiers(view, query) for query in queries])


def with_tiers(answers: Answers, tiers: Sequence[Tiers]) -> Answers:
    """Return the answers to queries with each ranking in tiers of its own."""
    pairs = zip(answers.answers, tiers, strict=True)
    ranked = [replace(each, ranking=tiered(each.ranking, of), scored=each.scored and not of) for each, of in pairs]
    return replace(answers, answers=ranked)


def nearest_in_tiers(view: LoadedView, towards: Embeddings, depth: int, allowed: Ids | None) -> list[Ranking]:
    """Return what `nearest` does, but ``depth`` texts that answer, and as many of each empty answer.

    Of a question to which most texts answer nothing, these could else be all that is near.
    """
    if not view.empty_answers:
        return nearest(view, towards, depth, allowed)
    among = view.contents.ids if allowed is None else allowed
    kinds = np.array([view.empty_answers.get(content, "") for content in among.tolist()], dtype=np.str_)
    found = [nearest(view, towards, depth, among[kinds == kind]) for kind in np.unique(kinds)]
    return [combined(*map(Part, rankings)) for rankings in zip(*found, strict=True)] or [Ranking([], [])] * len(towards)
