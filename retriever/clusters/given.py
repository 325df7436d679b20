"""Keep what people say of categories as answers to their question: examples, and documents that they move."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from retriever.clusters.categories import Category
from retriever.clusters.edits import Change, Move
from retriever.clusters.material import text_key
from retriever.core.text import normal_instruction
from retriever.core.unanswered import folded
from retriever.index.opened import Opened
from retriever.index.teaching.answering import PERSON, by_content, keep_answers
from retriever.index.teaching.labels import kept_labels
from retriever.store.database import Store


def keep_examples(opened: Opened, instruction: str, categories: Sequence[Category]) -> None:
    """Keep the examples of categories as a person's answers; nothing is written where they are known.

    Raises:
        InputError: an example is no document, the name is no answer, or equal texts are examples of two categories.
        IndexLockedError: another process writes to this index.
    """
    question, store = normal_instruction(instruction), opened.store
    named = by_content(opened, {id: category.name for category in categories for id in category.examples})
    known = store.answers.by(PERSON, question)
    new = {content: name for content, name in named.items() if name and folded(known.get(content, "")) != folded(name)}
    if new:
        with opened.writing("answer"), store.transaction():
            spelled = kept_labels(store, question).spelled
            keep_answers(opened, question, {content: spelled(name) for content, name in new.items()})


def with_given(
    store: Store, instruction: str, categories: Sequence[Category], learned: Collection[str] = ()
) -> list[Category]:
    """Return categories with the documents to which a person or a program gave them as the answer among the examples.

    Args:
        store: the index's database.
        instruction: what the categories are answers to.
        categories: them.
        learned: answers that the question was taught; what was given of these is in its view already.
    """
    given, taught = store.answers.given(normal_instruction(instruction)), {folded(answer) for answer in learned}
    ids: dict[str, list[str]] = {}
    for content, group in store.documents.expand(sorted(given)).items():
        ids.setdefault(folded(given[content]), []).extend(document.id for document in group)
    more = {name: ids for name, ids in ids.items() if name not in taught}
    return [
        replace(category, examples=tuple(dict.fromkeys([*category.examples, *more.get(folded(category.name), [])])))
        for category in categories
    ]


def keep_moves(opened: Opened, instruction: str, changes: Sequence[Change]) -> list[Change]:
    """Keep where documents are moved as a person's answers, in the caller's transaction.

    Returns:
        The changes; moves have what was kept, and the person's answer that it replaced.
    """
    question = normal_instruction(instruction)
    known, spelled = opened.store.answers.by(PERSON, question), kept_labels(opened.store, question).spelled
    made: list[Change] = []
    moved: dict[int, str | None] = {}
    for change in changes:
        content = _content_of(opened, change) if isinstance(change, Move) and change.answer else None
        if isinstance(change, Move) and content is not None:
            change = replace(change, answer=spelled(change.answer), before=known.get(content, ""))
            known[content] = moved[content] = change.answer
        made.append(change)
    if moved:
        keep_answers(opened, question, moved)
    return made


def take_back_move(opened: Opened, instruction: str, move: Move) -> None:
    """Give the text of a moved document the person's answer that it had before, or none, in the caller's transaction.

    A text that is gone, or that somebody answered otherwise since, is left.
    """
    question, content = normal_instruction(instruction), _content_of(opened, move)
    if content is not None and opened.store.answers.by(PERSON, question).get(content) == move.answer:
        keep_answers(opened, question, {content: move.before or None}, withdrawn=[PERSON])


def _content_of(opened: Opened, move: Move) -> int | None:
    """Return the content id of a moved document's text; None where the document is gone or has another text."""
    documents = opened.store.documents.get([move.id])
    if not documents or text_key(text := documents[move.id].text) != move.text:
        return None
    return opened.store.documents.known([text])[text]
