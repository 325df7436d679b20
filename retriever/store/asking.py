"""Tables on models at endpoints: calls under way, spending, models that the index met, and rerankers' scores."""

import os
import socket
import time
from collections.abc import Mapping, Sequence

from retriever.core.types import Ids
from retriever.store.answers import AnswerTable
from retriever.store.columns import as_ids, content_batches
from retriever.store.connection import Table, utc_now

CLAIM_SECONDS = 600.0
"""After so many seconds without a sign of life from its process, a claim holds nobody up."""


def owner_name(own: str) -> str:
    """Return the name of who claims texts: this machine, this process, and a name of its own."""
    return f"{socket.gethostname()} {os.getpid()} {own}"


class ClaimTable(Table):
    """The texts that somebody asks a language model about now."""

    def take(self, owner: str, author: str, question: str, content_ids: Sequence[int] | Ids, most: int | None) -> Ids:
        """Claim those of some texts, from the first, that are not asked about and were not, at most so many.

        In the caller's transaction, which holds off others.
        """
        taken = self.held_by_others(owner, author, question)
        gone = {*taken.tolist(), *AnswerTable(self._db).asked(author, question).tolist()}
        free = [content for content in dict.fromkeys(map(int, content_ids)) if content not in gone][:most]
        expires = time.time() + CLAIM_SECONDS
        self._db.write_many(
            "INSERT OR REPLACE INTO claims (author, question, content_id, owner, expires) "
            "SELECT ?, ?, content_id, ?, ? FROM contents WHERE content_id = ?",
            [(author, question, owner, expires, content) for content in free],
        )
        return as_ids([(content,) for content in free])

    def held_by_others(self, owner: str, author: str, question: str) -> Ids:
        """Return the texts that others, whose process is alive, ask about now, ascending."""
        rows = self._db.rows(
            "SELECT content_id, owner FROM claims WHERE question = ? AND author = ? AND owner != ? AND expires > ? "
            "ORDER BY content_id",
            (question, author, owner, time.time()),
        )
        return as_ids([(content,) for content, other in rows if _lives(other)])

    def renew(self, owner: str) -> None:
        """Show that who claimed texts is still at work."""
        self._db.record("UPDATE claims SET expires = ? WHERE owner = ?", (time.time() + CLAIM_SECONDS, owner))

    def release(self, owner: str, content_ids: Sequence[int] | Ids | None = None) -> None:
        """Give up what somebody claimed: some texts, or all."""
        with self._db.writing(data=False):
            if content_ids is None:
                self._db.write("DELETE FROM claims WHERE owner = ?", (owner,))
                return
            self._db.write_of(
                content_batches(content_ids),
                "DELETE FROM claims WHERE content_id IN (SELECT value FROM json_each(?)) AND owner = ?",
                owner,
            )


def _lives(owner: str) -> bool:
    """Return whether the process of a claim may be alive; on another machine nobody can tell."""
    host, pid, *_ = owner.split(" ")
    if host == socket.gethostname():
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # there it is, another person's
            return True
    return True


class SpendingTable(Table):
    """The texts and tokens that language models were sent, day by day."""

    def today(self) -> tuple[int, int]:
        """Return the texts and tokens that were sent today, UTC."""
        row = self._db.row("SELECT texts, tokens FROM spending WHERE day = ?", (utc_now()[:10],))
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def add(self, texts: int, tokens: int) -> None:
        """Count texts and tokens that are sent now."""
        self._db.record(
            "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE SET "
            "texts = texts + excluded.texts, tokens = tokens + excluded.tokens",
            (utc_now()[:10], texts, tokens),
        )

    def total(self) -> tuple[int, int]:
        """Return the texts and tokens that were sent on all days."""
        return self._db.row("SELECT COALESCE(SUM(texts), 0), COALESCE(SUM(tokens), 0) FROM spending") or (0, 0)


class LanguageModelTable(Table):
    """The language models that the index met."""

    def fingerprint(self, name: str, url: str, prompt: str) -> str:
        """Return the fingerprint that a model's answers are kept under; empty where the index has not met it."""
        row = self._db.row(
            "SELECT fingerprint FROM language_models WHERE name = ? AND url = ? AND prompt = ?", (name, url, prompt)
        )
        return "" if row is None else str(row[0])

    def meet(self, name: str, url: str, prompt: str, fingerprint: str) -> str:
        """Keep the fingerprint of a model, unless another process was first; return the one that is kept."""
        with self._db.writing(data=False):
            self._db.write(
                "INSERT INTO language_models VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (name, url, prompt, fingerprint),
            )
            return self.fingerprint(name, url, prompt)

    def names(self) -> list[str]:
        """Return the names of the models, sorted."""
        return [row[0] for row in self._db.rows("SELECT DISTINCT name FROM language_models ORDER BY name")]


class ReplyTable(Table):
    """Replies of language models to calls that are no questions about texts."""

    def get(self, model: str, call: bytes) -> str | None:
        """Return the reply of a model, by its fingerprint, to a call, by its hash; None where it was not sent."""
        row = self._db.row("SELECT reply FROM replies WHERE model = ? AND call = ?", (model, call))
        return None if row is None else str(row[0])

    def put(self, model: str, call: bytes, reply: str) -> None:
        """Keep a reply; a later one takes its place."""
        self._db.record("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (model, call, reply, utc_now()))


class RerankedTable(Table):
    """Scores of rerankers for queries and texts."""

    def get(self, reranker: str, calls: Mapping[bytes, bytes]) -> dict[bytes, float]:
        """Return the scores that are kept of calls, which are given with the hashes of their texts, by their hashes."""
        scores: dict[bytes, float] = {}
        for call, text in calls.items():
            row = self._db.row(
                "SELECT score FROM reranked WHERE reranker = ? AND call = ? AND hash = ?", (reranker, call, text)
            )
            scores |= {} if row is None else {call: float(row[0])}
        return scores

    def put(self, reranker: str, rows: Sequence[tuple[bytes, bytes, float]]) -> None:
        """Keep scores, with the hash of the call and of its text; of a text that is gone none is kept."""
        with self._db.writing(data=False):
            self._db.write_many(
                "INSERT OR REPLACE INTO reranked SELECT ?, ?, hash, ? FROM contents WHERE hash = ?",
                [(reranker, call, score, text) for call, text, score in rows],
            )

    def names(self) -> list[str]:
        """Return the names of the rerankers that scores are kept of, sorted."""
        return [row[0] for row in self._db.rows("SELECT DISTINCT reranker FROM reranked ORDER BY reranker")]

    def clear(self) -> None:
        """Forget all scores."""
        self._db.record("DELETE FROM reranked")
