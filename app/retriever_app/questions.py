"""Questions that an index is asked: those that fit what it holds, to begin with, and those to choose from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retriever.core.results import ViewStatus
from retriever.index.profiling import Columns, Profile

MOST_SUGGESTED = 8
LEAST = 24
"""Reviews with few or many stars from which on they are looked at by themselves."""

_OF_REVIEWS = (
    "What kind of product is this review about?",
    "How does the customer feel about it?",
    "What is it used for?",
    "What broke?",
)
_OF_TEXTS = (
    "What is it about?",
    "What does the writer want?",
    "How does the writer feel?",
    "What is the problem?",
)
_PLACES = {"followed": 0, None: 1, "unclear": 2, "not followed": 3}  # of questions, by whether they are followed


@dataclass(frozen=True, slots=True)
class Start:
    """A question to begin with: as a person would ask, and as the model is asked of every text.

    It is asked of the reviews with some stars; empty for all.
    """

    label: str
    question: str
    stars: tuple[int, ...] = ()


def fitting(columns: Columns) -> tuple[str, ...]:
    """Return questions that fit an index, first those that the model which comes with retriever follows.

    Texts with stars or a product are reviews of something.
    """
    return _OF_REVIEWS if columns.stars or columns.product else _OF_TEXTS


def starts(profile: Profile) -> list[Start]:
    """Return three questions to begin with; of complaints and praise, the reviews with few and many stars are asked."""
    if fitting(profile.columns) is _OF_TEXTS:
        return [
            Start("What is it about?", _OF_TEXTS[0]),
            Start("What do they want?", _OF_TEXTS[1]),
            Start("How do they feel?", _OF_TEXTS[2]),
        ]
    most = 5 if max(profile.stars, default=5) <= 5 else 10
    low, high = tuple(range(1, most * 2 // 5 + 1)), tuple(range(most * 4 // 5, most + 1))
    return [
        Start("What do they complain about?", "What does the customer complain about?", _enough(profile.stars, low)),
        Start("What is praised?", "What is good about it?", _enough(profile.stars, high)),
        Start("What is it about?", _OF_REVIEWS[0]),
    ]


def _enough(counts: Mapping[int, int], stars: tuple[int, ...]) -> tuple[int, ...]:
    """Return some stars where enough reviews have them; nothing where there are too few to look at alone."""
    return stars if sum(counts.get(rating, 0) for rating in stars) >= LEAST else ()


def suggestions(views: Iterable[ViewStatus], profile: Profile) -> list[str]:
    """Return questions to choose from: those asked of an index, the latest first, then those that fit it.

    Questions that are followed or were taught go before all others, and those that are not followed come last.
    """
    fits = fitting(profile.columns)
    own = sorted((view for view in views if view.instruction), key=lambda view: view.last_used, reverse=True)
    asked = list(dict.fromkeys(view.instruction for view in own))[: MOST_SUGGESTED - len(fits)]
    places: dict[str, int] = {}
    for view in own:
        level = "followed" if view.taught else view.verdict.level if view.verdict else None
        places[view.instruction] = min(_PLACES[level], places.get(view.instruction, max(_PLACES.values())))
    return sorted(dict.fromkeys([*asked, *fits]), key=lambda question: places.get(question, _PLACES[None]))
