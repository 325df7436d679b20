"""Have the language model that serves a question judge the first answers of a list against the query.

Vectors of short answers lose negation and degree: "not real cooks" is near to "serious cooks". The model reads the
answers alone, no text, and is asked once a list.
"""

from collections.abc import Sequence
from itertools import islice

from retriever.core.errors import EncoderError
from retriever.core.unanswered import empty_answer, folded
from retriever.index.opened import Opened
from retriever.index.search.rankings import Ranking
from retriever.index.search.tiers import Tier
from retriever.index.sources.answers import Answers

JUDGED = 15
"""Different answers that are judged, from the first."""


def judge(opened: Opened, source: Answers, query: str, answers: Sequence[str]) -> list[Tier]:
    """Ask the language model that serves a question how far some of its different answers meet a query.

    An answer that seems to speak to the model is not sent, and stays open.

    Raises:
        ConsentError, ReadingLimitError, EncoderError: as `Asker.send`, or its reply cannot be used.
    """
    from retriever.encoders.answers.judging import JudgeCall
    from retriever.encoders.answers.wire import addresses_reader

    sent = [row for row, answer in enumerate(answers) if not addresses_reader(answer)]
    tiers = [Tier.OPEN] * len(answers)
    if not sent:
        return tiers
    call = JudgeCall(source.instruction, query, [answers[row] for row in sent])
    checked, refused = opened.asker.send(source.by.name, call, len(sent), opened.budget)
    if refused:
        raise EncoderError(
            f"{source.by.name} did not judge the answers: {refused}",
            hint="Search without judging: --no-judge of a command, judge=False elsewhere.",
        )
    for row, grade in zip(sent, checked.grades, strict=True):
        tiers[row] = Tier[grade.name]
    return tiers


def graded(opened: Opened, source: Answers, query: str, ranking: Ranking) -> dict[int, Tier]:
    """Return the tiers of texts of a ranking by their answers to a source's question, of which the first are judged.

    Texts with equal answers are in one tier. For a query that is an empty answer nothing is judged.
    """
    answers = source.answers(ranking.ids)
    said = {content: folded(answer) for content, answer in answers.items() if empty_answer(answer) is None}
    distinct: dict[str, str] = {}
    for content in filter(said.__contains__, ranking.ids):
        distinct.setdefault(said[content], answers[content])
    judged = dict(islice(distinct.items(), JUDGED))
    if empty_answer(query) is not None or not judged:
        return {}
    tiers = dict(zip(judged, judge(opened, source, query, list(judged.values())), strict=True))
    empty = dict.fromkeys(answers.keys() - said.keys(), Tier.EMPTY)
    return empty | {content: tiers[answer] for content, answer in said.items() if answer in tiers}
