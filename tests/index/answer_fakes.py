"""A reader that a person can compute: it answers with the first mood of a text, and can be made to fail."""

import time

from retriever.core.unanswered import NOT_SAID
from retriever.encoders.answers import loading
from retriever.encoders.answers.answerer import Answer, Answered, Unread
from retriever.encoders.answers.judging import CheckedGrades, Grade, JudgeCall
from retriever.encoders.answers.places import Place

NAME = "chat:fake"


class FakeReader:
    """Answers with the first of some words that a text holds.

    Args:
        answers: the words.
        name: it is chosen by.
        host: where texts go; empty for this process.
        silent: texts that it refuses.
        stop_after: raise KeyboardInterrupt once so many answers were kept.
        error: raised once a text that it is about is reached.
        error_at: that text.

    Attributes:
        grades: what it says of answers to a query, by query and answer; yes to all others. In its place an
            error that is raised, or why no reply can be used.
        judged: the calls for that.
    """

    def __init__(self, answers, *, name=NAME, host="", silent=(), stop_after=None, error=None, error_at=""):
        self.answers = list(answers)
        self.name = name
        self.host = host
        self.silent = set(silent)
        self.stop_after = stop_after
        self.error, self.error_at = error, error_at
        self.fingerprint = name.replace("chat:fake", "reader").ljust(64, "0")
        self.asked = []
        self.questions = []
        self.probes = 0
        self.grades = {}
        self.judged = []

    @property
    def spec(self):
        return Place(self.name, self.host, loopback=not self.host, url=f"fake://{self.host}", model=self.name)

    def probe(self, *, spend=None):
        self.probes += 1
        return self.fingerprint

    def said(self, text, question):
        return next((word for word in text.split() if word in self.answers), NOT_SAID)

    def answer(self, texts, question, *, keep=None, spend=None, until=None):
        answers, failures = [None] * len(texts), {}
        for row, text in enumerate(texts):
            if until is not None and time.monotonic() >= until:
                break
            if self.error is not None and text == self.error_at:
                raise self.error
            if spend is not None:
                spend.before(len(text.split()))
            self.asked.append(text)
            self.questions.append(question)
            if text in self.silent:
                said = Unread.REFUSED
                failures[said] = failures.get(said, 0) + 1
            else:
                answers[row] = said = self.said(text, question)
            if keep is not None:
                keep([Answer(row, said)])
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
        return Answered(answers, failures)

    def send(self, call, *, spend=None):
        if not isinstance(call, JudgeCall):
            return call.unusable(Unread.REFUSED)
        self.judged.append(call)
        if isinstance(self.grades, Exception):
            raise self.grades
        if isinstance(self.grades, Unread):
            return call.unusable(self.grades)
        return CheckedGrades([Grade(self.grades.get((call.query, answer), "yes")) for answer in call.answers])


def loads(monkeypatch, *readers):
    """Have readers loaded by their names, in the place of language models behind endpoints; return the first."""
    monkeypatch.setattr(loading, "load_answerer", lambda name: {reader.name: reader for reader in readers}[name])
    return readers[0]
