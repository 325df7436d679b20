"""The word index of texts: the language that its words are of, and what of a text it holds.

English texts are held as they are, and FTS5 stems them. Of texts in another language the column ``words`` has the terms
(`Language.searched`), and FTS5 only parts them.
"""

from collections.abc import Iterator

from retriever.core.errors import IndexDamagedError, UsageError
from retriever.core.languages import ENGLISH, Language, language
from retriever.store.connection import Table
from retriever.store.schema import create_word_index
from retriever.store.settings import Settings

LANGUAGE = "language"
"""The setting that names the language of an index; one without it is English."""

_BATCH = 1000
_MAX_TERMS = 256  # distinct ones of a query that are looked for


class WordIndex(Table):
    """The word index and its language."""

    @property
    def language(self) -> Language:
        """The language that texts are searched in."""
        code = Settings(self._db).get(LANGUAGE)
        return language(code) if isinstance(code, str) else ENGLISH

    def is_known(self) -> bool:
        """Whether the index still says which language that is."""
        try:
            return self.language is not None
        except (IndexDamagedError, UsageError):
            return False

    def speak(self, chosen: Language) -> None:
        """Search texts in a language from now on; those that are stored are indexed anew where it is another."""
        if chosen == self.language:
            Settings(self._db).set(LANGUAGE, chosen.code)
            return
        with self._db.writing(documents=True):
            Settings(self._db).set(LANGUAGE, chosen.code)
            self._remake(chosen)

    def rebuild(self) -> None:
        """Make the word index anew from the texts."""
        with self._db.writing(documents=True):
            self._remake(self.language)

    def _remake(self, chosen: Language) -> None:
        self._db.write("REPLACE INTO contents_fts_config VALUES ('version', 4)")  # of another format it is not dropped
        create_word_index(self._db, english=chosen.is_english)
        if chosen.is_english:
            self._db.write("UPDATE contents SET words = NULL WHERE words IS NOT NULL")
        else:
            for rows in self._texts():
                searched = [(chosen.searched(text), content_id) for content_id, text in rows]
                self._db.write_many("UPDATE contents SET words = ? WHERE content_id = ?", searched)
        self._db.write("INSERT INTO contents_fts (contents_fts) VALUES ('rebuild')")

    def _texts(self) -> Iterator[list[tuple[int, str]]]:
        last = -1
        statement = "SELECT content_id, text FROM contents WHERE content_id > ? ORDER BY content_id LIMIT ?"
        while rows := self._db.rows(statement, (last, _BATCH)):
            yield [(content_id, text) for content_id, text in rows]
            last = rows[-1][0]


def match_expression(query: str, spoken: Language = ENGLISH) -> str:
    """Return an FTS5 expression, always a valid one, that matches any word of the query, or "" if it has none."""
    return " OR ".join(spoken.query_terms(query)[:_MAX_TERMS])
