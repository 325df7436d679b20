"""Answers to questions, text by text, by whoever gave them: a person, a program, or a language model.

A person's stands before a program's, and that before a model's. Answers cost money or minutes, so they outlive the
vectors made of them: a view that is dropped, forgotten or embedded by another encoder takes its vectors from these.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from retriever.core.types import Ids
from retriever.store.columns import as_ids, content_batches
from retriever.store.connection import Table, utc_now

PERSON, PROGRAM = "person", "program"
"""Authors of answers that were given; the other authors are the fingerprints of language models."""

GIVEN = "given"
"""Stands for whoever gives answers, where no language model does."""

_WANTED = "SELECT answer_id, author, question, content_id, answer, reason, checksum FROM answers"


def answer_checksum(author: str, question: str, content_id: int, answer: str | None, reason: str) -> int:
    """Return the CRC-32 of an answer's row."""
    row = [author, question, str(content_id), "" if answer is None else f"={answer}", reason]
    return zlib.crc32("\0".join(row).encode("utf-8", "surrogatepass"))


class AnswerTable(Table):
    """The answers of an index, at most one of each author, question and text."""

    def put(
        self, author: str, question: str, answers: Mapping[int, str], refused: Mapping[int, str] | None = None
    ) -> None:
        """Store answers by the content ids of texts, in the place of what the author answered before.

        Args:
            author: `PERSON`, `PROGRAM`, or the fingerprint of a language model.
            question: it.
            answers: by content id.
            refused: why a language model that was asked has none, by content id.
        """
        now = utc_now()
        given: dict[int, tuple[str | None, str]] = {
            content: (None, reason) for content, reason in (refused or {}).items()
        }
        given |= {content: (answer, "") for content, answer in answers.items()}
        rows = [
            (author, question, content, *said, now, answer_checksum(author, question, content, *said))
            for content, said in given.items()
        ]
        with self._db.writing():
            self._db.write_many(
                "INSERT OR REPLACE INTO answers (author, question, content_id, answer, reason, made, checksum) "
                "SELECT ?1, ?2, content_id, ?4, ?5, ?6, ?7 FROM contents WHERE content_id = ?3",
                rows,
            )

    def get(self, author: str, question: str, content_ids: Sequence[int] | Ids) -> dict[int, str]:
        """Return the answers to a question that are known among some texts: those that were given, else the author's.

        Raises:
            IndexDamagedError: one is not what was stored.
        """
        rows = self._db.rows_of(
            content_batches(content_ids),
            f"{_WANTED} WHERE content_id IN (SELECT value FROM json_each(?1)) AND question = ?2 "
            "AND answer IS NOT NULL AND author IN (?3, ?4, ?5) ORDER BY author = ?4, author = ?5",  # the last is taken
            *(question, author, PERSON, PROGRAM),
        )
        return self._checked(rows)

    def by(self, author: str, question: str) -> dict[int, str]:
        """Return the answers of an author alone to a question, by content id; errors as `get`."""
        wanted = f"{_WANTED} WHERE author = ? AND question = ? AND answer IS NOT NULL ORDER BY content_id"
        return self._checked(self._db.rows(wanted, (author, question)))

    def _checked(self, rows: Iterable[tuple[Any, ...]]) -> dict[int, str]:
        known: dict[int, str] = {}
        for answer_id, *row, checksum in rows:
            if answer_checksum(*row) != checksum:
                raise self._db.damaged(f"answer {answer_id} is not what was stored")
            known[row[2]] = row[3]
        return known

    def given(self, question: str) -> dict[int, str]:
        """Return the answers to a question that people and programs gave, by content id, the latest last, as `get`."""
        wanted = f"{_WANTED} WHERE question = ?1 AND author IN (?2, ?3) AND answer IS NOT NULL"
        return self._checked(self._db.rows(f"{wanted} ORDER BY author = ?3, answer_id", (question, PROGRAM, PERSON)))

    def held(self, author: str, question: str) -> Ids:
        """Return the texts whose answer to a question is known, given or by the author, ascending."""
        return self._contents(author, question, refused=False)

    def asked(self, author: str, question: str) -> Ids:
        """Return the texts that need not be asked about, ascending: answered, or refused by the author."""
        return self._contents(author, question, refused=True)

    def _contents(self, author: str, question: str, *, refused: bool) -> Ids:
        return as_ids(
            self._db.rows(
                "SELECT DISTINCT content_id FROM answers WHERE question = ? AND author IN (?, ?, ?) "
                "AND (answer IS NOT NULL OR ?) ORDER BY content_id",
                (question, author, PROGRAM, PERSON, refused),
            )
        )

    def authors(self, author: str, question: str) -> dict[int, str]:
        """Return who gave the answer that stands, by content id: a person, else a program, else the author."""
        return dict(
            self._db.rows(
                "SELECT content_id, author FROM answers WHERE question = ?1 AND author IN (?2, ?3, ?4) "
                "AND answer IS NOT NULL ORDER BY author = ?4, author = ?3",  # the last is taken
                (question, author, PROGRAM, PERSON),
            )
        )

    def count_paid(self, author: str, question: str) -> int:
        """Count the texts that a language model was asked about under a question, refused or not."""
        counted = "SELECT COUNT(*) FROM answers WHERE question = ? AND author = ?"
        return self._db.number(counted, (question, author))

    def refused(self, author: str, question: str) -> dict[int, str]:
        """Return why a language model that was asked did not answer a question, by content id."""
        wanted = "SELECT content_id, reason FROM answers WHERE question = ? AND author = ? AND answer IS NULL"
        return dict(self._db.rows(wanted, (question, author)))

    def take_back(
        self, question: str, content_ids: Sequence[int] | Ids, authors: Sequence[str] = (PERSON, PROGRAM)
    ) -> None:
        """Remove answers that some authors gave."""
        with self._db.writing():
            self._db.write_of(
                content_batches(content_ids),
                "DELETE FROM answers WHERE content_id IN (SELECT value FROM json_each(?)) "
                "AND question = ? AND author IN (SELECT value FROM json_each(?))",
                question,
                json.dumps([*authors]),
            )

    def forget_refused(self, question: str) -> int:
        """Forget which texts were refused under a question, so that they are asked about again; return how many."""
        with self._db.writing(data=False):
            return len(
                self._db.rows("DELETE FROM answers WHERE question = ? AND answer IS NULL RETURNING 1", (question,))
            )

    def damaged(self) -> dict[int, str]:
        """Return the rows that are not what was stored: the questions that they answer, by rowid."""
        with self._db.escaped_text():
            rows = self._db.rows(f"{_WANTED} ORDER BY answer_id")
        return {answer_id: str(row[1]) for answer_id, *row, checksum in rows if answer_checksum(*row) != checksum}
