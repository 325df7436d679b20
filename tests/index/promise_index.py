"""An index of fakes in which every text that is sent to a language model is written down.

Everything the state machine of promises calls is a method of `PromiseIndex`, so a change of the package's API is made
here alone.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from answer_fakes import NAME, FakeReader
from index_fakes import FAULT, KEYWORDS, MOOD, FakeEncoder
from teaching_corpus import mood

from retriever.core.errors import ConsentError, EncoderMismatchError, InputError, UsageError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.encoders.answers.wire import Format, Reply
from retriever.index import reembedding
from retriever.index.asking.limits import ReadingLimits
from retriever.index.upkeep.archive import import_index
from retriever.workspace import Index

QUESTIONS = (MOOD, FAULT)
NEAR, FAR = NAME, "chat:far"
HOSTS = {NEAR: "", FAR: "models.example:443"}
GIVEN, TAUGHT, ENCODER = "given", "taught", "encoder"
SEARCHED = SearchOptions(costly_texts=2, costly_rounds=2, candidates=6)
MOST_OF_A_SEARCH = SEARCHED.costly_texts * SEARCHED.costly_rounds


def said(text, question):
    """The answer of a language model: one of two moods, or one of two kinds of faults."""
    if question == MOOD:
        return mood(text)
    return "minor" if set(text.split()) & set(KEYWORDS[FAULT][:8]) else "serious"


@dataclass(frozen=True)
class Sent:
    """One text that was sent to a language model, and what was sent for it."""

    command: str
    reader: str
    host: str
    question: str
    text: str


@dataclass(frozen=True)
class Called:
    """One call about answers that was sent to a language model, with what it held."""

    command: str
    reader: str
    host: str
    content: str


class CountedReader(FakeReader):
    """A language model that writes down what it is sent."""

    def __init__(self, name, index):
        super().__init__([], name=name, host=HOSTS[name])
        self._index = index

    def said(self, text, question):
        return said(text, question)

    def answer(self, texts, question, **options):
        for text in texts:
            self._index.sent.append(Sent(self._index.command, self.name, self.host, question, text))
        return super().answer(texts, question, **options)

    def send(self, call, *, spend=None):
        """Put every other answer to the first of two categories, or to none of those that somebody named."""
        content = call.messages(Format.SCHEMA)[1]["content"]
        self._index.called.append(Called(self._index.command, self.name, self.host, content))
        ids = [item["id"] for item in json.loads(content)["answers"]]
        if "query" in json.loads(content):
            return super().send(call, spend=spend)
        if "categories" in json.loads(content):
            return call.check(Reply(json.dumps({"answers": [{"id": id, "category": "other"} for id in ids]})), None)
        halves = {"the first": ids[::2], "the second": ids[1::2]}
        written = [{"name": name, "definition": "Half.", "ids": half} for name, half in halves.items()]
        return call.check(Reply(json.dumps({"categories": written})), None)


def load(description):
    """Give the encoder of a description."""
    return FakeEncoder(description["fingerprint"].rstrip("0"))


class PromiseIndex:
    """An open index with two language models, of which one is on another machine.

    Attributes:
        sent: every text sent so far.
        called: every call about answers sent so far.
        command: what is running.
    """

    def __init__(self, folder):
        self.sent, self.called, self.command = [], [], ""
        self._folder, self._moves = folder, 0
        self.readers = {name: CountedReader(name, self) for name in HOSTS}
        self._index = Index(self._path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"), load=load)

    @property
    def _path(self):
        return self._folder / str(self._moves)

    def load_reader(self, name):
        return self.readers[name]

    @contextmanager
    def running(self, command) -> Iterator[list[Sent]]:
        """Give a list that holds what was sent once the block is left, also by an error."""
        self.command, before, sent = command, len(self.sent), []
        try:
            yield sent
        finally:
            sent += self.sent[before:]
            self.command = ""

    def close(self):
        self._index.close()

    def open(self, limit=None):
        self._index = Index(self._path, load=load, search_options=SEARCHED, limits=ReadingLimits(texts=limit))

    def reopen(self, limit=None):
        self.close()
        self.open(limit)

    def add(self, documents):
        self._index.add([Document(id, text) for id, text in documents.items()])

    def delete(self, id):
        return self._index.delete([id])

    def repair(self):
        self._index.upkeep.repair()

    def complete(self, question):
        self._index.upkeep.complete([question])

    def findings(self):
        return self._index.upkeep.verify().findings

    def allow(self, host):
        self._index.teaching.allow(host)

    def read_by(self, question, reader):
        """Choose a reader; whether that was not refused for want of consent."""
        try:
            self._index.teaching.read_by(question, reader)
        except ConsentError:
            return False
        return True

    def give(self, question, words):
        self._index.teaching.give_answers(question, words)

    def answers(self, question):
        return self._index.teaching.answers(question)

    def teach(self, question, examples: Sequence[tuple[str, str]]):
        self._index.teaching.teach(question, examples)

    def forget(self, question):
        """Forget what was taught; whether there was anything."""
        try:
            self._index.teaching.forget(question)
        except InputError:
            return False
        return True

    def server(self, question):
        """Who serves a question."""
        reader, lessons = self._index.teaching.reader(question), self._index.teaching.lessons(question)
        return reader or (ENCODER if lessons is None else TAUGHT)

    def server_of(self, question, view):
        """Who made the vectors of a view; nobody where it is not of the question."""
        for status in self._index.views():
            if status.instruction == question and status.view == view:
                return status.encoder if status.encoder in (GIVEN, *HOSTS) else ENCODER
            if status.instruction == question and status.taught is not None and status.taught.view == view:
                return TAUGHT
        return ""

    def search(self, query, question, *, settled):
        """Return the view that the first or the settled hits come from; None where consent is wanting."""
        results = self._index.search_progressively(SearchRequest(query, instruction=question, k=3))
        try:
            *_, last = results if settled else [next(results)]
        except ConsentError:
            return None
        return last.view

    def cluster(self, question, k, into, read):
        """Return clusters; None where consent is wanting, or fewer texts than clusters have an answer."""
        try:
            return self._index.cluster(question, k=k, into=into, read=read)
        except (ConsentError, InputError, UsageError):
            return None

    def save(self, name, clusters):
        self._index.clusterings.save(name, clusters)

    def saved(self, name):
        """Return saved clusters; None where something else serves their question by now."""
        try:
            return self._index.clusterings.get(name)
        except EncoderMismatchError:
            return None

    def reembed(self, *, encoder=None, plain=None):
        """Change encoders, and return the questions whose lessons are lost."""
        self.close()
        encoder, plain = (name and FakeEncoder(name) for name in (encoder, plain))
        report = reembedding.reembed(self._path, encoder, plain=plain, load=load)
        self.open()
        return set(report.untaught)

    def roll_back(self):
        """Go back to the encoders before, and return the questions whose lessons are lost."""
        self.close()
        report = reembedding.roll_back(self._path, load=load)
        self.open()
        return set(report.untaught)

    def export_and_import(self):
        """Go on with what an export of the index is imported as."""
        archive = self._folder / f"{self._moves}.tar"
        self._index.upkeep.archive(archive)
        self.close()
        self._moves += 1
        import_index(archive, self._path)
        self.open()

    def copy(self):
        """Go on with a copy of the folder."""
        self.close()
        before = self._path
        self._moves += 1
        shutil.copytree(before, self._path)
        self.open()
