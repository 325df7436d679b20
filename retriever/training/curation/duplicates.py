"""Rows that say again what another says: the same question about the same text, or a field that repeats another."""

from collections.abc import Iterator, Sequence

from retriever.training.curation.report import Dropped
from retriever.training.rows import TrainingRow, normalise_answer, normalise_text

SAME_PAIR = "same question and text as an earlier row"
TEXT_IS_INSTRUCTION = "the text is the instruction"
TEXT_IS_ANSWER = "the text is the answer"


def duplicates(rows: Sequence[TrainingRow]) -> Iterator[Dropped]:
    """Yield the rows to drop: the first row of a question and text stays, whatever the later ones answer.

    Questions are compared in their own words, so that one question in several wordings is several rows; case, spaces
    and punctuation do not count. That rows share a question, or a text, alone is no fault: the rule within a field
    would keep one row a question.
    """
    met: set[tuple[str, str]] = set()
    for row in rows:
        text, instruction = row.text_key, normalise_text(row.instruction)
        if row.instruction and text == instruction:
            yield Dropped(row, TEXT_IS_INSTRUCTION)
        elif normalise_answer(row.text) in map(normalise_answer, row.right):
            yield Dropped(row, TEXT_IS_ANSWER)
        elif (instruction, text) in met:
            yield Dropped(row, SAME_PAIR)
        else:
            met.add((instruction, text))
