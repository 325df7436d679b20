"""Who answers a question: the index's encoders, a language model, or whoever hands answers in."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from retriever.core.errors import InputError, UsageError
from retriever.core.text import composed, is_blank, normal_instruction
from retriever.encoders.answers.answerer import MOST_CHARACTERS, MOST_WORDS, NOT_SAID
from retriever.encoders.answers.places import ALLOW_HTTP
from retriever.index.opened import Opened
from retriever.index.sources.answers import Answers, Reader
from retriever.index.sources.catalog import choose, current, serving
from retriever.index.sources.making import add_source
from retriever.index.sources.source import Source
from retriever.store.answers import GIVEN
from retriever.store.database import Store

__all__ = ["DEFAULT", "GIVEN", "ReaderPlace", "give_answers", "known_readers", "question_of", "serve_by"]

DEFAULT = "default"
"""Stands for the index's own encoders, and for what examples taught them."""

READERS = "readers"
"""The setting that holds the fingerprint of each language model that has read for the index, by name."""


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """Where a reader gets texts.

    Attributes:
        name: of the reader.
        host: with the port; empty where texts stay in this process.
        local: whether that is this machine.
        allowed: whether texts of the index may be sent there.
    """

    name: str
    host: str
    local: bool
    allowed: bool


def known_readers(store: Store) -> dict[str, str]:
    """Return the fingerprints of the language models that have read for an index, by name."""
    stored = store.settings.get(READERS)
    return {name: str(fingerprint) for name, fingerprint in stored.items()} if isinstance(stored, dict) else {}


def serve_by(opened: Opened, instruction: str, reader: str) -> None:
    """Let a reader serve an instruction as `Teaching.read_by` does; what others have read of it stays."""
    question = question_of(instruction)
    store, sources = opened.store, opened.sources
    now = serving(sources.listed(), question)
    if reader == DEFAULT:
        own = serving([entry for entry in sources.listed() if not entry.costly], question)
        if own is None or now is not own:
            with store.transaction():
                key = sources.read(question).key
                choose(store, store.views.ensure(key, lazy=True) if own is None else own.view)
        return
    source = Answers(sources.base, question, _by(store, reader), sources)
    if now is None or now.view.key != source.key:
        _serve(store, source)


def give_answers(opened: Opened, instruction: str, answers: Mapping[str, str | None]) -> int:
    """Take answers to a question as `Teaching.give_answers` does; the caller holds the writer's lock."""
    question = question_of(instruction)
    store, sources = opened.store, opened.sources
    by_content = _by_content(opened, answers)
    given = {content_id: answer for content_id, answer in by_content.items() if answer is not None}
    served = serving(current(store), question)
    with store.transaction():
        store.answers.put(GIVEN, question, given)
        store.answers.take_back(question, [content_id for content_id, answer in by_content.items() if answer is None])
        views = [entry.view.view_id for entry in current(store) if entry.costly and entry.instruction == question]
        for view_id in views:  # the next search or completion embeds what they are now
            store.vectors.remove(view_id, list(by_content))
            store.generations.retire(view_id)
        if served is None or not served.costly:
            _serve(store, Answers(sources.base, question, Reader(), sources))
    return len(by_content)


def question_of(instruction: str) -> str:
    """Return an instruction as answers are kept under it.

    Raises:
        UsageError: it is blank.
    """
    question = normal_instruction(instruction)
    if not question:
        raise UsageError("A reader needs an instruction.", hint='Add one: --instruction "What broke?"')
    return question


def _by_content(opened: Opened, answers: Mapping[str, str | None]) -> dict[int, str | None]:
    """Return answers by the content ids of the texts that they are of: of documents, or of the parts that are read."""
    documents = opened.documents(answers)
    known = opened.store.documents.known([document.text for document in documents.values()])
    embedded = set(opened.store.documents.contents_of(answers).tolist())
    by_content: dict[int, str | None] = {}
    for id, answer in answers.items():
        if id not in documents:
            raise InputError(f"There is no document {id!r}.", hint="Ids are those of the corpus.")
        content = known[documents[id].text]
        if content not in embedded:
            raise InputError(
                f"The index reads {id!r} sentence by sentence.", hint=f"Answer its sentences: {id}#1, {id}#2 and so on."
            )
        said = None if answer is None else _phrase(id, answer)
        if by_content.setdefault(content, said) != said:
            raise InputError(f"The text of {id!r} has two answers.", hint="Equal texts have one answer.")
    return by_content


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


def _serve(store: Store, source: Source) -> None:
    with store.writing():
        choose(store, add_source(store, source))


def _by(store: Store, name: str) -> Reader:
    """Return a reader by its name; the first time it is asked for its fingerprint."""
    if name == GIVEN:
        return Reader()
    known = known_readers(store)
    if name not in known:
        from retriever.encoders.answers.loading import load_answerer

        known[name] = load_answerer(name).fingerprint
        store.settings.set(READERS, known)
    return Reader(name, known[name])


@contextmanager
def http_allowed(allowed: bool) -> Iterator[None]:
    """Let language models be asked over an unencrypted connection for a while, if that is allowed."""
    before = os.environ.get(ALLOW_HTTP)
    if allowed:
        os.environ[ALLOW_HTTP] = "1"
    try:
        yield
    finally:
        if allowed:
            os.environ.pop(ALLOW_HTTP)
            os.environ.update({ALLOW_HTTP: before} if before is not None else {})
