"""Answers to questions, text by text: of a language model, of a program, or of a person, whose answer wins.

They cost money or minutes, so they outlive the vectors made of them: a view that is dropped, forgotten or embedded by
another encoder takes its vectors from them again.
"""

import zlib
from collections.abc import Mapping, Sequence

from retriever.core.types import Ids
from retriever.store.columns import as_ids, content_batches
from retriever.store.connection import Table, utc_now

GIVEN = "given"
"""Stands for the reader of answers that were handed in; they go before those of any other reader."""

_WANTED = "SELECT answer_id, reader, question, content_id, answer, checksum FROM answers"


def answer_checksum(reader: str, question: str, content_id: int, answer: str) -> int:
    """Return the CRC-32 of an answer's row."""
    return zlib.crc32("\0".join([reader, question, str(content_id), answer]).encode("utf-8", "surrogatepass"))


class AnswerTable(Table):
    """The answers of an index, at most one of each reader, question and text."""

    def put(self, reader: str, question: str, answers: Mapping[int, str]) -> None:
        """Store answers by the content ids of texts, in the place of what the reader answered before.

        The reader is given by its fingerprint, or as `GIVEN`.
        """
        now = utc_now()
        rows = [
            (reader, question, content_id, answer, now, answer_checksum(reader, question, content_id, answer))
            for content_id, answer in answers.items()
        ]
        with self._db.writing():
            self._db.write_many(
                "INSERT OR REPLACE INTO answers (reader, question, content_id, answer, made, checksum) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def get(self, reader: str, question: str, content_ids: Sequence[int] | Ids) -> dict[int, str]:
        """Return the answers to a question that are known among some texts: those handed in, else the reader's.

        Raises:
            IndexDamagedError: one is not what was stored.
        """
        known: dict[int, str] = {}
        for answer_id, *row, checksum in self._db.rows_of(
            content_batches(content_ids),
            f"{_WANTED} WHERE content_id IN (SELECT value FROM json_each(?1)) AND question = ?2 "
            "AND reader IN (?3, ?4) ORDER BY reader = ?4",
            question,
            reader,
            GIVEN,
        ):
            if answer_checksum(*row) != checksum:
                raise self._db.damaged(f"answer {answer_id} is not what was stored")
            known[row[2]] = row[3]
        return known

    def held(self, reader: str, question: str) -> Ids:
        """Return the texts whose answer to a question is known, handed in or by the reader, ascending."""
        return as_ids(
            self._db.rows(
                "SELECT DISTINCT content_id FROM answers WHERE question = ? AND reader IN (?, ?) ORDER BY content_id",
                (question, reader, GIVEN),
            )
        )

    def asked(self, reader: str, question: str) -> Ids:
        """Return the texts that the reader was asked about under a question, or that are answered, ascending."""
        return self.held(reader, question)  # refusals are not kept yet

    def take_back(self, question: str, content_ids: Sequence[int] | Ids) -> None:
        """Remove answers that were handed in; those of readers stay."""
        with self._db.writing():
            self._db.write_of(
                content_batches(content_ids),
                "DELETE FROM answers WHERE content_id IN (SELECT value FROM json_each(?)) "
                "AND question = ? AND reader = ?",
                question,
                GIVEN,
            )

    def damaged(self) -> dict[int, str]:
        """Return the rows that are not what was stored: the questions that they answer, by rowid."""
        with self._db.escaped_text():
            rows = self._db.rows(f"{_WANTED} ORDER BY answer_id")
        return {answer_id: str(row[1]) for answer_id, *row, checksum in rows if answer_checksum(*row) != checksum}
