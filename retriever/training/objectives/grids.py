"""Find grids among rows: texts of one source under the same questions, for batches in which similarities turn over.

Two texts that one question finds alike another tells apart. Where both stand in one batch under both questions, what
the texts have in common cannot lower the loss; only the question does. Nothing has to say which rows make a grid:
texts that share questions are found.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

LEAST_TEXTS = 4  # three make the smallest reversal
LEAST_QUESTIONS = 2
BLOCK_TEXTS = 4096  # texts of a source that are looked at together, so that the work grows with the rows alone
_LACKING = 4  # a text of a grid lacks at most one of so many questions
_LOOKED_AT = 16  # texts that are compared for the next place in a grid


@dataclass(frozen=True, slots=True)
class Cell:
    """A row as grids are made of it.

    Attributes:
        row: its number.
        text: of one source.
        question: the same for every wording of one question.
        same: equal for rows that are positives of each other.
    """

    row: int
    text: str
    question: str
    same: Hashable


def find_grids(cells: Sequence[Cell], *, texts: int, questions: int, draw: random.Random) -> list[list[int]]:
    """Return grids of row numbers, each row at most once, with the rows of a text side by side.

    A grid has at most so many texts under at most so many questions. Its texts are chosen so that an answer comes
    twice where it can; a question with no answer that comes twice is left out of it. Every row keeps its own wording.
    A row that is in no grid has too few texts beside it that share its questions.
    """
    by_text: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_text[cell.text].append(cell)
    every = list(by_text.values())
    draw.shuffle(every)
    found = []
    for start in range(0, len(every), BLOCK_TEXTS):
        found += _Block(every[start : start + BLOCK_TEXTS], texts, questions, draw).grids()
    return found


class _Block:
    """Texts with the rows that are left of them. A set of texts is a number whose bits are the texts' places."""

    def __init__(self, every: Sequence[Sequence[Cell]], texts: int, questions: int, draw: random.Random) -> None:
        self._texts = texts
        self._questions = questions
        self._draw = draw
        self._left: list[dict[str, list[Cell]]] = []
        self._rows_left: list[int] = []
        self._asked: dict[str, int] = defaultdict(int)
        self._answered: dict[str, dict[Hashable, int]] = defaultdict(lambda: defaultdict(int))
        for place, cells in enumerate(every):
            waiting: dict[str, list[Cell]] = defaultdict(list)
            for cell in draw.sample(cells, len(cells)):
                waiting[cell.question].append(cell)
            self._left.append(dict(waiting))
            self._rows_left.append(len(cells))
            for question in waiting:
                self._show(place, question)
        self._usable = {question for question in self._asked if self._repeats(question)}

    def grids(self) -> list[list[int]]:
        """Return grids until no text begins another."""
        found = []
        able = dict.fromkeys(range(len(self._left)))
        while able:
            first = max(able, key=self._rows_left.__getitem__)
            if grid := self._grid(first):
                found.append(grid)
            else:
                del able[first]
        return found

    def _grid(self, first: int) -> list[int]:
        """Return a grid that holds a text, or nothing."""
        questions = self._chosen_questions(first)
        if not questions:
            return []
        texts = self._chosen_texts(first, questions)
        counts = {one: Counter(self._same(text, one) for text in texts if one in self._left[text]) for one in questions}
        kept = [one for one in questions if max(counts[one].values()) > 1]
        self._usable -= {one for one in questions if one not in kept and not self._repeats(one)}
        texts = [text for text in texts if sum(one in self._left[text] for one in kept) >= LEAST_QUESTIONS]
        if len(texts) < LEAST_TEXTS:
            return []
        return [self._take(text, one).row for text in texts for one in kept if one in self._left[text]]

    def _chosen_questions(self, first: int) -> list[str]:
        """Return questions of a text that fill the most cells with other texts; none where too few share them."""
        left = [one for one in self._left[first] if one in self._usable]
        self._draw.shuffle(left)
        full, most = (1 << len(self._left)) - 1, 0
        chosen: list[str] = []
        best: list[str] = []
        while left and len(chosen) < self._questions:
            after = [(full & self._asked[one]).bit_count() for one in left]
            question = left.pop(after.index(max(after)))
            chosen.append(question)
            full &= self._asked[question]
            cells = min(self._texts, full.bit_count()) * len(chosen)
            if len(chosen) >= LEAST_QUESTIONS and full.bit_count() >= LEAST_TEXTS and cells > most:
                best, most = list(chosen), cells
        return best

    def _chosen_texts(self, first: int, questions: Sequence[str]) -> list[int]:
        """Return texts, the first among them, so that few answers stand alone."""
        pool = self._nearly_full(questions) & ~(1 << first)
        chosen = [first]
        seen = {one: Counter([self._same(first, one)]) for one in questions}
        while pool and len(chosen) < self._texts:
            alone = [(one, same) for one, counts in seen.items() for same, count in counts.items() if count == 1]
            self._draw.shuffle(alone)
            matching = (pool & self._answered[one][same] for one, same in alone if same in self._answered[one])
            found = self._some(next(filter(None, matching), pool))
            best = max(found, key=lambda text: (self._gain(text, seen), self._rows_left[text]))
            chosen.append(best)
            pool &= ~(1 << best)
            for one, counts in seen.items():
                if one in self._left[best]:
                    counts[self._same(best, one)] += 1
        return chosen

    def _nearly_full(self, questions: Sequence[str]) -> int:
        """Return the texts that lack at most one of four of the questions."""
        lacking = [(1 << len(self._left)) - 1, *[0] * (len(questions) // _LACKING)]  # by how many are lacking
        for one in questions:
            asked = self._asked[one]
            lacking = [
                (texts & asked) | (0 if number == 0 else lacking[number - 1] & ~asked)
                for number, texts in enumerate(lacking)
            ]
        return sum(lacking)  # no text is in two of them

    def _gain(self, text: int, seen: dict[str, Counter[Hashable]]) -> int:
        """Weigh a text for a grid: an answer that has stood alone, or the second answer to a question, is wanted."""
        gain = 0
        for one, counts in seen.items():
            if one not in self._left[text]:
                continue
            count = counts[self._same(text, one)]
            if count == 1:
                gain += 2
            elif count == 0:
                gain += 1 if len(counts) == 1 else -1
        return gain

    def _some(self, texts: int) -> list[int]:
        """Return a few of some texts, from a place on that is drawn."""
        size = len(self._left)
        start = self._draw.randrange(size)
        turned = (texts >> start) | ((texts & ((1 << start) - 1)) << (size - start))
        found: list[int] = []
        while turned and len(found) < _LOOKED_AT:
            lowest = turned & -turned
            found.append((lowest.bit_length() - 1 + start) % size)
            turned ^= lowest
        return found

    def _same(self, text: int, question: str) -> Hashable:
        return self._left[text][question][-1].same

    def _repeats(self, question: str) -> bool:
        """Return whether some answer to a question is that of several texts."""
        return any(texts.bit_count() > 1 for texts in self._answered[question].values())

    def _show(self, text: int, question: str) -> None:
        self._asked[question] |= 1 << text
        self._answered[question][self._same(text, question)] |= 1 << text

    def _take(self, text: int, question: str) -> Cell:
        """Take a text's next row of a question away; another of the same question becomes the next."""
        waiting = self._left[text][question]
        cell = waiting.pop()
        self._rows_left[text] -= 1
        self._asked[question] &= ~(1 << text)
        self._answered[question][cell.same] &= ~(1 << text)
        if waiting:
            self._show(text, question)
        else:
            del self._left[text][question]
        return cell
