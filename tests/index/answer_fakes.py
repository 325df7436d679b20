"""A reader that a person can compute: it answers with the first mood of a text, and can be made to fail."""

from retriever.encoders.answers import loading
from retriever.encoders.answers.answerer import NOT_SAID, Answer, Answered, AnswererSpec, Unread

NAME = "chat:fake"


class FakeReader:
    """Answers with the first of some words that a text holds.

    Args:
        answers: the words.
        host: where texts go; empty for this process.
        silent: texts that it leaves out.
        stop_after: raise KeyboardInterrupt once so many answers were kept.
    """

    fingerprint = "reader".ljust(64, "0")

    def __init__(self, answers, *, host="", silent=(), stop_after=None):
        self.answers = list(answers)
        self.host = host
        self.silent = set(silent)
        self.stop_after = stop_after
        self.asked = []
        self.questions = []

    @property
    def spec(self):
        return AnswererSpec(NAME, self.host, loopback=not self.host)

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]

    def said(self, text, question):
        return next((word for word in text.split() if word in self.answers), NOT_SAID)

    def answer(self, texts, questions, *, keep=None):
        columns = [[None] * len(texts) for _ in questions]
        failed = 0
        for row, text in enumerate(texts):
            self.asked.append(text)
            if text in self.silent:
                failed += len(questions)
                continue
            for number, column in enumerate(columns):
                self.questions.append(questions[number])
                column[row] = said = self.said(text, questions[number])
                if keep is not None:
                    keep([Answer(row, number, said)])
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
        return Answered(columns, {Unread.LEFT_OUT: failed} if failed else {})


def loads(monkeypatch, reader):
    """Have a reader loaded by its name, in the place of a language model behind an endpoint; return it."""
    monkeypatch.setattr(loading, "load_answerer", lambda name, fingerprint="": {NAME: reader}[name])
    return reader
