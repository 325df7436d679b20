"""A closed question: which of some categories a text belongs to, asked of a language model as a question of its own.

The categories stand in the question's text, so answers are kept under it like any others: the same categories in the
same order are the same question, and no text is asked about twice.
"""

from collections.abc import Sequence

from retriever.clusters.categories import Category
from retriever.core.errors import UsageError
from retriever.core.text import composed
from retriever.encoders.answers.answerer import MOST_CHARACTERS, MOST_WORDS, NOT_SAID

OTHER = "other"
"""The option of a text that answers the question with none of the categories."""

MOST_BYTES = 6000
"""Bytes of a closed question at most, which leave room for texts in a call."""

_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb"


def options_of(categories: Sequence[Category]) -> list[Category]:
    """Return the options of a closed question: the categories, then `OTHER` and `NOT_SAID` where none is called so."""
    named = {folded(category.name) for category in categories}
    return [*categories, *(Category(name) for name in (OTHER, NOT_SAID) if name not in named)]


def closed_question(instruction: str, categories: Sequence[Category]) -> str:
    """Return the question that has categories as its options, in one line.

    Args:
        instruction: the open question.
        categories: two or more.

    Raises:
        UsageError: a name is longer than an answer can be, or the question is too long to be asked.
    """
    for category in categories:
        if len(category.name.split()) > MOST_WORDS or len(category.name) > MOST_CHARACTERS:
            raise UsageError(
                f"The category {category.name!r} is longer than an answer can be.",
                hint=f"Give it a name of at most {MOST_WORDS} words, and say the rest in its description.",
            )
    names = "; ".join(f'"{option.name}"' for option in options_of(categories))
    meanings = [f'"{category.name}" means: {category.description}' for category in categories if category.description]
    own = {folded(category.name) for category in categories}
    if OTHER not in own:
        meanings.append(f'"{OTHER}" means: the text answers the question with none of these')
    if NOT_SAID not in own:
        meanings.append(f'"{NOT_SAID}" means: the text does not answer the question')
    definitions = " ".join(meaning if meaning.endswith((".", "!", "?")) else f"{meaning}." for meaning in meanings)
    whole = f"{instruction.strip()} Answer with exactly one of these, as it is written: {names}. {definitions}"
    question = composed(" ".join(whole.split()))
    if len(question.encode()) > MOST_BYTES:
        raise UsageError(
            f"The categories come to a question of {len(question.encode()):,} bytes; {MOST_BYTES:,} are the most.",
            hint="Shorten their descriptions, or give fewer categories.",
        )
    return question


def option_numbers(answers: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return which option each answer is, by position; one that is none of them counts as `OTHER`.

    Args:
        answers: of the language model.
        names: of the options, `OTHER` among them in some spelling.
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        numbers.setdefault(folded(name), number)
    return [numbers.get(folded(answer), numbers[OTHER]) for answer in answers]


def folded(answer: str) -> str:
    """Return an answer without what models add to the option they mean: capitals, quotation marks, a full stop."""
    return " ".join(composed(answer).casefold().strip(f" .{_QUOTES}").split())
