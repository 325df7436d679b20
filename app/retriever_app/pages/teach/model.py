"""The contents of the page Teach: the answers to choose from, what is still needed, and what was learned."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from retriever.core.languages import ENGLISH, Language
from retriever.core.lessons import Lessons
from retriever.core.results import IndexingReport
from retriever.index.teaching.active_learning import Suggestion
from retriever.index.teaching.examples import LEAST
from retriever.index.teaching.labels import NONE_OF_THESE, Labels
from retriever.workspace import Index
from retriever_app import cards, text
from retriever_app.background import Progress

PURPOSE = (
    "Teach the model one question: label about a dozen reviews, and it learns in seconds. "
    "To make a new model for many questions from hundreds of rows, in minutes to hours, train one."
)
AT_ONCE = 12
"""Reviews of a round."""
MOST_ANSWERS = 12
LONGEST = 60
"""Most characters of an answer."""

_SENTENCES = 3  # of a review that are shown
_LONGEST_SENTENCE = 220  # characters of one that are shown
_DESCRIBED, _ASKED = 0.5, 0.25  # weights of a description's and of the question's words, beside 1 of an answer's
_CLEAR = 0.5  # by how much more probable than the next an answer is that is shown as a guess

TUNE_HELP = (
    "Learns these examples and also fine-tunes the base encoder on them, if that helps on the examples set aside for "
    "testing. The encoder then reads the reviews again, which takes minutes. Use it for questions that the model does "
    "not follow."
)
LEARN_HELP = "Learns without fine-tuning, and drops the encoder that was fine-tuned for this question."

_NOT_TUNED = " Fine-tuning did not help on the examples set aside for testing, so it was not kept."


@dataclass(frozen=True, slots=True)
class TaughtQuestion:
    """A question that the page teaches."""

    instruction: str = ""


class Labeling:
    """Reviews that one browser labels under one question of one index, in rounds.

    Attributes:
        offered: the reviews of the round.
        place: of the review in focus; behind the last one where the round is over.
        labeled: ids of those labeled or skipped in this round, in this order.
        basis: what the choice of reviews depended on.
    """

    def __init__(self, index: Index, question: str) -> None:
        self.index, self.question = index, question
        self.name = (index.identity, question)
        self.offered: Sequence[Suggestion] = ()
        self.place = 0
        self.labeled: list[str] = []
        self.basis: object = None
        self._passed: set[str] = set()  # ids of reviews that were passed without a label, in all rounds

    @property
    def current(self) -> Suggestion | None:
        """The review in focus."""
        return self.offered[self.place] if self.place < len(self.offered) else None

    def offer(self) -> None:
        """Begin a round with the reviews that say most now."""
        self.offered = self.index.teaching.worth_answering(self.question, AT_ONCE, self._passed)
        self.place, self.labeled = 0, []
        if not self.offered:  # those that were passed may come again
            self._passed.clear()

    def label(self, id: str, answer: str) -> None:
        """Keep the review in focus as an example of an answer, and move the focus on.

        A second press of a key, before the next review is drawn, does nothing.
        """
        if self._is_current(id):
            self.index.teaching.label(self.question, id, answer)
            self._done(id)

    def skip(self, id: str) -> None:
        """Offer the review in focus for this question no more, and move the focus on."""
        if self._is_current(id):
            self.index.teaching.skip(self.question, id)
            self._done(id)

    def leave(self, id: str) -> None:
        """Move the focus on from a review that gets no label now."""
        if self._is_current(id):
            self._passed.add(id)
            self.place += 1

    def pass_by(self, labeled: Collection[str]) -> None:
        """Move the focus on from reviews that were labeled elsewhere meanwhile."""
        while self.current is not None and self.current.document.id in labeled:
            self.place += 1

    def undo(self) -> None:
        """Take back the last label of this round, and move the focus back to its review."""
        if self.labeled:  # a second press may come before the button is drawn as disabled
            id = self.labeled.pop()
            self.place = [review.document.id for review in self.offered].index(id)
            self.index.teaching.unlabel(self.question, id)

    def _is_current(self, id: str) -> bool:
        return self.current is not None and self.current.document.id == id

    def _done(self, id: str) -> None:
        self.labeled.append(id)
        self.place += 1


def read_answers(written: str, known: Iterable[str] = ()) -> dict[str, str]:
    """Return the descriptions of answers by their names, as they are written in a box.

    A line is an answer; behind a colon stands its description. A single line without a colon may hold several answers,
    separated by commas. A known answer may hold commas and colons.
    """
    lines = [" ".join(line.split()) for line in written.splitlines()]
    if len(lines) == 1 and ":" not in lines[0] and lines[0] not in known:
        lines = [part.strip() for part in lines[0].split(",")]
    longest_first = sorted(known, key=len, reverse=True)
    answers: dict[str, str] = {}
    for line in filter(None, lines):
        begins = next((name for name in longest_first if line == name or line.startswith(f"{name}: ")), None)
        name, _, description = (begins, "", line[len(begins) + 1 :]) if begins else line.partition(":")
        if name.strip() and all(name.strip().casefold() != other.casefold() for other in [*answers, NONE_OF_THESE]):
            answers[begins or name.strip()[:LONGEST]] = description.strip()
    return dict(list(answers.items())[:MOST_ANSWERS])


def written(answers: Mapping[str, str]) -> str:
    """Return answers as `read_answers` reads them, one a line."""
    lines = [f"{answer}: {description}" if description else answer for answer, description in answers.items()]
    return "\n".join(lines)


def changed_answers(kept: Mapping[str, str], before: str, now: str) -> dict[str, str]:
    """Return the answers after a change of the box from what it held before to what it holds now.

    Answers that another session added meanwhile are among those kept by the index, and stay.
    """
    old, new = read_answers(before, kept), read_answers(now, kept)
    return {**new, **{answer: text for answer, text in kept.items() if answer not in old and answer not in new}}


def lacking(labels: Labels) -> str:
    """Say how many examples are needed before there is something to learn from; empty where there is."""
    counts = Counter(labels.examples.values())
    enough = sum(count >= LEAST for count in counts.values()) >= 2
    return "" if enough else f"Label at least {LEAST} examples for each of at least two answers."


def counted(labels: Labels) -> str:
    """Say how many examples each answer has."""
    counts = Counter(labels.examples.values())
    answers = [*labels.answers, *([NONE_OF_THESE] if counts[NONE_OF_THESE] else [])]
    skipped = [f"{len(labels.skipped)} skipped"] if labels.skipped else []
    return " · ".join([*(f"{answer} {counts[answer]}" for answer in answers), *skipped])


def unmet(labels: Labels) -> list[str]:
    """Return the answers that have no example yet."""
    return [answer for answer in labels.answers if answer not in labels.examples.values()]


def unlearned(lessons: Lessons) -> str:
    """Say which answers were not learned, and why; empty where all were."""
    return " ".join(
        f"“{answer}” was not learned: it has {text.count(number, 'example') if number else 'no example'} and needs "
        f"{LEAST}."
        for answer, number in lessons.unlearned.items()
    )


def guess(review: Suggestion, lessons: Lessons | None) -> str:
    """Return what the model takes for a review's answer, where that is better than guessing; empty elsewhere."""
    if lessons is None or review.guess is None or review.certainty is None or review.certainty < _CLEAR:
        return ""
    return review.guess if lessons.after.low > 1 / len(lessons.answers) else ""


def excerpt(review: str, question: str, answers: Mapping[str, str], language: Language = ENGLISH) -> str:
    """Return the sentences of a review that say most of the answers.

    Where too few sentences name any, its first and its last one stand for them.
    """
    named = cards.stems(" ".join(answers), language)
    weights = dict.fromkeys(cards.stems(question, language), _ASKED)
    described = cards.stems(" ".join(answers.values()), language)
    weights |= dict.fromkeys(described, _DESCRIBED) | dict.fromkeys(named, 1.0)
    spans = cards.sentences(review)

    def rank(place: int) -> tuple[float, bool, int]:
        words = cards.stems(review[spans[place].start : spans[place].end], language)
        return -cards.said(words, weights), place not in (0, len(spans) - 1), place

    chosen = sorted(sorted(range(len(spans)), key=rank)[:_SENTENCES])
    pieces = []
    for place, before in zip(chosen, [-1, *chosen], strict=False):
        sentence = _shortened(review[spans[place].start : spans[place].end])
        pieces.append(f"{'' if place == before + 1 else '… '}{sentence}")
    return " ".join([*pieces, *(["…"] if chosen and chosen[-1] < len(spans) - 1 else [])])


def _shortened(sentence: str) -> str:
    if len(sentence) <= _LONGEST_SENTENCE:
        return sentence
    return f"{sentence[:_LONGEST_SENTENCE].rsplit(maxsplit=1)[0]} …"


def learned(lessons: Lessons) -> str:
    """Say how well the question is answered before and after, and what came of fine-tuning."""
    return f"{lessons.sentence}{_NOT_TUNED if lessons.tuned is False else ''}"


def advice(lessons: Lessons) -> str:
    """Say what to do next."""
    if not lessons.gained:
        return "Label more examples, or undo the teaching."
    if lessons.warns:
        return "Label more examples to be sure."
    return "Searches and clusters under this question now use it."


def tuning_progress(report: IndexingReport, *, tuned: bool) -> Progress:
    """Return how far a fine-tuning is; what is read before it has tuned a step was never read under the question."""
    total = report.expected or 1
    doing = "Fine-tuning: step" if report.tuning else "Reading reviews again:" if tuned else "Reading reviews:"
    return Progress(f"{doing} {report.in_hand:,} of {total:,}", min(1.0, report.in_hand / total))
