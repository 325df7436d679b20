"""Who answers a question, and answers that people and programs give."""

from collections.abc import Mapping, Sequence

from retriever.core.errors import InputError, UsageError
from retriever.core.text import composed, is_blank, normal_instruction
from retriever.core.unanswered import NOT_SAID
from retriever.encoders.answers.answerer import MOST_CHARACTERS, MOST_WORDS
from retriever.index.opened import Opened
from retriever.index.sources.answers import Answers, Reader
from retriever.index.teaching.labels import name_answers, skip
from retriever.store.answers import GIVEN as GIVEN
from retriever.store.answers import PERSON as PERSON
from retriever.store.answers import PROGRAM

DEFAULT = "default"
"""Stands for the index's own encoders, and for what examples taught them."""


def choose_reader(opened: Opened, instruction: str, reader: str) -> None:
    """Let a reader serve an instruction as `Teaching.read_by` does; what others have read of it stays."""
    question, sources = question_of(instruction), opened.sources
    if reader == DEFAULT:
        own = [source for source in sources.candidates(question) if not source.in_words]
        chosen = own[0] if own else sources.read(question)
    else:
        by = Reader() if reader == GIVEN else opened.asker.meet(reader, opened.budget)
        chosen = Answers.given_by(sources.base, question, by)
    if sources.active(question) != chosen:
        sources.choose(chosen)


def give_answers(opened: Opened, instruction: str, answers: Mapping[str, str | None], author: str = PERSON) -> int:
    """Take answers to a question as `Teaching.give_answers` does; the caller holds the writer's lock."""
    question, sources = question_of(instruction), opened.sources
    said = by_content(opened, answers)
    with opened.store.transaction():
        keep_answers(opened, question, said, author)
        served = sources.active(question)
        if served is None or not served.in_words:
            sources.choose(Answers.given_by(sources.base, question, Reader()))
    return len(said)


def keep_answers(
    opened: Opened,
    question: str,
    answers: Mapping[int, str | None],
    author: str = PERSON,
    withdrawn: Sequence[str] = (PERSON, PROGRAM),
) -> None:
    """Keep answers to a question by content id, in the caller's transaction; None takes back those ``withdrawn``.

    Views of answers lose what they had of these texts: the next search or completion embeds what they are now.
    """
    store = opened.store
    store.answers.put(author, question, {content: said for content, said in answers.items() if said is not None})
    store.answers.take_back(question, [content for content, said in answers.items() if said is None], withdrawn)
    skip(store, question, [content for content, said in answers.items() if said is not None], back=True)
    for source in opened.known_sources.all(lambda view: True):  # of earlier encoders too
        if source.in_words and source.instruction == question:
            store.vectors.remove(source.view_id, list(answers))
            store.generations.retire(source.view_id)


def keep_examples(opened: Opened, question: str, answers: Mapping[int, str]) -> None:
    """Keep answers of a person by content id as examples, and name them."""
    with opened.store.transaction():
        keep_answers(opened, question, answers)
        name_answers(opened.store, question, dict.fromkeys(answers.values(), ""), add=True)


def question_of(instruction: str) -> str:
    """Return an instruction as answers are kept under it.

    Raises:
        UsageError: it is blank.
    """
    question = normal_instruction(instruction)
    if not question:
        raise UsageError("A reader needs an instruction.", hint='Add one: --instruction "What broke?"')
    return question


def by_content(opened: Opened, answers: Mapping[str, str | None]) -> dict[int, str | None]:
    """Return answers by the content ids of the texts that they are of: of documents, or of the parts that are read.

    Raises:
        InputError: there is no such document, an answer is blank or no phrase, equal texts have two answers, or a
            document is read by its sentences.
    """
    documents = opened.store.documents.get(list(answers))
    known = opened.store.documents.known([document.text for document in documents.values()])
    embedded = set(opened.store.documents.contents_of(answers).tolist())
    found: dict[int, str | None] = {}
    for id, answer in answers.items():
        if id not in documents:
            raise InputError(f"There is no document {id!r}.", hint="Ids are those of the corpus.")
        content = known[documents[id].text]
        if content not in embedded:
            raise InputError(
                f"The index reads {id!r} sentence by sentence.", hint=f"Answer its sentences: {id}#1, {id}#2 and so on."
            )
        said = None if answer is None else _phrase(id, answer)
        if found.setdefault(content, said) != said:
            raise InputError(f"The text of {id!r} has two answers.", hint="Equal texts have one answer.")
    return found


def _phrase(id: str, answer: str) -> str:
    """Return an answer on one line, in composed characters."""
    if is_blank(answer):
        raise InputError(f"The answer for {id!r} is blank.", hint=f"Say '{NOT_SAID}' where a text does not answer.")
    said = " ".join(composed(answer).split())
    if len(said.split()) > MOST_WORDS or len(said) > MOST_CHARACTERS:
        raise InputError(
            f"The answer for {id!r} has {len(said.split())} words and {len(said)} characters.",
            hint=f"An answer is a phrase of at most {MOST_WORDS} words and {MOST_CHARACTERS} characters.",
        )
    return said
