"""The tables of an index's database: one script with one version.

A change of the script raises `VERSION`. A database of another version is refused, never changed: make its index anew.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

from retriever.core.errors import IndexNotFoundError, InputError, SchemaError
from retriever.store.connection import Connections, connect, explain

VERSION = 7
"""Version of the tables below; the database holds it as its ``user_version``."""

_TABLES = f"""
-- AUTOINCREMENT: vector indexes hold content ids, so an id must never come to mean another text.
CREATE TABLE contents (
    content_id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    text TEXT NOT NULL,
    words TEXT                  -- what is searched of it, where that is not the text itself
) STRICT;
CREATE VIEW searched AS SELECT content_id, COALESCE(words, text) AS text FROM contents;
-- The word index `contents_fts` of this view, which `create_word_index` makes.
CREATE TRIGGER contents_added AFTER INSERT ON contents BEGIN
    INSERT INTO contents_fts (rowid, text) VALUES (new.content_id, COALESCE(new.words, new.text));
END;
CREATE TRIGGER contents_removed AFTER DELETE ON contents BEGIN
    INSERT INTO contents_fts (contents_fts, rowid, text)
    VALUES ('delete', old.content_id, COALESCE(old.words, old.text));
END;
CREATE TRIGGER contents_changed AFTER UPDATE OF text ON contents BEGIN
    INSERT INTO contents_fts (contents_fts, rowid, text)
    VALUES ('delete', old.content_id, COALESCE(old.words, old.text));
    INSERT INTO contents_fts (rowid, text) VALUES (new.content_id, COALESCE(new.words, new.text));
END;
-- A document that is divided is not embedded; its parts are, each a document with a parent.
CREATE TABLE documents (
    id TEXT UNIQUE,             -- a part has none, so that no document can have the id of a part
    parent TEXT REFERENCES documents (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,    -- which part of its parent it is, from 1; else 0
    start INTEGER NOT NULL,     -- where it stands in its parent's text
    stop INTEGER NOT NULL,
    parts INTEGER NOT NULL,     -- how many it is divided into
    content_id INTEGER NOT NULL REFERENCES contents (content_id),
    metadata TEXT NOT NULL,     -- a part has that of its parent
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX documents_by_content ON documents (content_id, parts);
CREATE INDEX documents_by_parent ON documents (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX documents_divided ON documents (content_id, parts) WHERE parts > 0;
CREATE TABLE fields (name TEXT NOT NULL PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE views (
    view_id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL,
    instruction TEXT NOT NULL,
    pooling TEXT NOT NULL,
    steps INTEGER,
    look_ahead INTEGER,
    dtype TEXT NOT NULL,
    dim INTEGER NOT NULL,
    created TEXT NOT NULL,
    last_used TEXT NOT NULL,
    lazy INTEGER NOT NULL DEFAULT 0,      -- whether only searches fill it
    removals INTEGER NOT NULL DEFAULT 0   -- how often vectors were taken out
) STRICT;
CREATE UNIQUE INDEX views_by_key ON views (
    fingerprint, instruction, pooling, COALESCE(steps, -1), COALESCE(look_ahead, -1), dtype, dim
);
-- AUTOINCREMENT: a generation covers the vectors up to a watermark, so a later vector must get a larger id
-- even when the last ones were removed.
CREATE TABLE vectors (
    vector_id INTEGER PRIMARY KEY AUTOINCREMENT,
    view_id INTEGER NOT NULL REFERENCES views (view_id) ON DELETE CASCADE,
    content_id INTEGER NOT NULL REFERENCES contents (content_id) ON DELETE CASCADE,
    vector BLOB NOT NULL,
    words TEXT,
    windows TEXT,  -- places in the text of the windows whose vectors stand behind its own
    checksum INTEGER NOT NULL,
    UNIQUE (view_id, content_id)
) STRICT;
CREATE INDEX vectors_by_view ON vectors (view_id);
CREATE INDEX vectors_with_windows ON vectors (view_id, content_id) WHERE windows IS NOT NULL;
CREATE INDEX vectors_by_content ON vectors (content_id);
-- How alike the vectors of a view are at random.
CREATE TABLE similarities (
    view_id INTEGER NOT NULL PRIMARY KEY REFERENCES views (view_id) ON DELETE CASCADE,
    vectors INTEGER NOT NULL,
    quantiles BLOB NOT NULL
) STRICT;
-- Whether the question of a view is followed, as it was found.
CREATE TABLE verdicts (
    view_id INTEGER NOT NULL PRIMARY KEY REFERENCES views (view_id) ON DELETE CASCADE,
    document TEXT NOT NULL
) STRICT;
-- What makes the vectors of a view that no encoder fills by reading texts.
CREATE TABLE sources (
    view_id INTEGER NOT NULL PRIMARY KEY REFERENCES views (view_id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    needs TEXT NOT NULL,      -- ids of the views whose vectors it takes
    hidden INTEGER NOT NULL,  -- whether only other sources look at the view
    state TEXT NOT NULL,
    arrays BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;
-- Which view serves an instruction: the one that was chosen last, of those that the index's encoders have.
CREATE TABLE serves (
    choice INTEGER PRIMARY KEY AUTOINCREMENT,
    instruction TEXT NOT NULL,
    view_id INTEGER NOT NULL UNIQUE REFERENCES views (view_id) ON DELETE CASCADE
) STRICT;
-- What people, programs and language models answered to questions, text by text.
CREATE TABLE answers (
    answer_id INTEGER PRIMARY KEY,
    author TEXT NOT NULL,     -- "person", "program", or the fingerprint of a language model
    question TEXT NOT NULL,
    content_id INTEGER NOT NULL REFERENCES contents (content_id) ON DELETE CASCADE,
    answer TEXT,              -- null where a language model was asked and has none
    reason TEXT NOT NULL,     -- why; else empty
    made TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (question, author, content_id)
) STRICT;
CREATE INDEX answers_by_content ON answers (content_id);
-- Texts that a process is asking a language model about now, so that no other pays for them too.
CREATE TABLE claims (
    claim_id INTEGER PRIMARY KEY,
    author TEXT NOT NULL,
    question TEXT NOT NULL,
    content_id INTEGER NOT NULL REFERENCES contents (content_id) ON DELETE CASCADE,
    owner TEXT NOT NULL,      -- host, process and a name of its own
    expires REAL NOT NULL,    -- seconds since 1970
    UNIQUE (question, author, content_id)
) STRICT;
CREATE INDEX claims_by_content ON claims (content_id);
-- What language models were sent, by day (UTC).
CREATE TABLE spending (
    day TEXT NOT NULL PRIMARY KEY,
    texts INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;
-- The language models that the index met, by name, address and wording of the questions to them.
CREATE TABLE language_models (
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    prompt TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    PRIMARY KEY (name, url, prompt)
) STRICT;
-- What language models replied to calls that are no questions about texts, such as for categories of answers.
CREATE TABLE replies (
    model TEXT NOT NULL,      -- fingerprint
    call BLOB NOT NULL,       -- hash of all that was sent
    reply TEXT NOT NULL,      -- as it was checked
    made TEXT NOT NULL,
    PRIMARY KEY (model, call)
) STRICT;
-- What rerankers gave for a query and a text.
CREATE TABLE reranked (
    reranker TEXT NOT NULL,   -- name
    call BLOB NOT NULL,       -- hash of its fingerprint, instruction, query and the part of the text that it read
    hash BLOB NOT NULL REFERENCES contents (hash) ON DELETE CASCADE,
    score REAL NOT NULL,
    PRIMARY KEY (reranker, call, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX reranked_by_content ON reranked (hash);
-- How far the random order of texts was read for a view: texts are drawn whose number is at most the threshold.
CREATE TABLE samples (
    view_id INTEGER NOT NULL REFERENCES views (view_id) ON DELETE CASCADE,
    population TEXT NOT NULL,  -- the filter of the documents, empty for all; chosen documents by a hash of their ids
    threshold REAL NOT NULL,
    UNIQUE (view_id, population)
) STRICT;
-- Searches that went on until their hits no longer changed, in which state of documents and view.
CREATE TABLE settled (
    settled_id INTEGER PRIMARY KEY,
    view_id INTEGER NOT NULL REFERENCES views (view_id) ON DELETE CASCADE,
    search BLOB NOT NULL,     -- hash of the query and its options
    ranking TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    documents INTEGER NOT NULL,
    removals INTEGER NOT NULL,
    newest INTEGER NOT NULL,  -- the largest content id by then: what is larger was not looked at
    UNIQUE (view_id, search)
) STRICT;
-- No foreign key: a row outlives its view until somebody has removed its file.
CREATE TABLE generations (
    generation_id INTEGER PRIMARY KEY AUTOINCREMENT,
    view_id INTEGER NOT NULL,
    backend TEXT NOT NULL,
    handle TEXT NOT NULL,
    size INTEGER NOT NULL,
    watermark INTEGER NOT NULL,
    recall REAL,
    details TEXT NOT NULL,
    created TEXT NOT NULL,
    active INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX generations_active ON generations (view_id) WHERE active;

CREATE TABLE clusterings (
    name TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    document TEXT NOT NULL,
    centroids BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;
CREATE TABLE edits (
    edit_id INTEGER PRIMARY KEY AUTOINCREMENT,
    clustering TEXT NOT NULL REFERENCES clusterings (name) ON DELETE CASCADE,
    change TEXT NOT NULL,
    author TEXT NOT NULL,
    made TEXT NOT NULL,
    undone TEXT
) STRICT;
CREATE INDEX edits_by_clustering ON edits (clustering);

CREATE TABLE runs (
    run_id INTEGER PRIMARY KEY AUTOINCREMENT,
    command TEXT NOT NULL,
    started TEXT NOT NULL,
    finished TEXT,
    status TEXT NOT NULL,
    statistics TEXT NOT NULL,
    versions TEXT NOT NULL
) STRICT;
CREATE TABLE quarantine (
    run_id INTEGER NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    file TEXT NOT NULL,
    line INTEGER NOT NULL,
    document_id TEXT,
    reason TEXT NOT NULL,
    raw TEXT NOT NULL
) STRICT;
CREATE INDEX quarantine_by_run ON quarantine (run_id);
CREATE TABLE settings (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT;
-- Checksums of the rows that say what the others mean.
CREATE TABLE seals (
    kind TEXT NOT NULL, key TEXT NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
-- Counts the committed changes of data, and of documents alone, for caches in any process.
CREATE TABLE revision (number INTEGER NOT NULL, documents INTEGER NOT NULL) STRICT;
INSERT INTO revision VALUES (0, 0);
PRAGMA user_version = {VERSION};
"""

_ENGLISH_TOKENS = "porter unicode61"
_TERMS = "unicode61 remove_diacritics 2 categories ''L* M* N* Co''"  # which are parted and stemmed already

_FOREIGN_KEYS = """
SELECT tables.name, keys."from", keys."table", keys."to"
FROM sqlite_schema AS tables JOIN pragma_foreign_key_list(tables.name) AS keys
"""
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name"


def lacks_tables(path: Path, *, create: bool) -> bool:
    """Return whether a database file is empty, which ``create`` allows, having looked without touching it.

    Raises:
        SchemaError: another version of retriever wrote it.
        IndexNotFoundError: another program wrote it, or it must not be empty.
        IndexDamagedError: it is no database.
    """
    # A process that was killed while it made the file leaves a journal, which only a writer may roll back.
    interrupted = path.with_name(f"{path.name}-journal").exists()
    try:
        with closing(connect(path, "rw" if interrupted else "ro")) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise explain(error, path) from error
    if not (create if not tables else tables >= {"contents", "documents", "revision"}):
        raise IndexNotFoundError(
            f"{path} is not a retriever index.", hint="Name another folder, or make one with `retriever index`."
        )
    if tables:
        _require_version(version, path)
    return not tables


def create_tables(connections: Connections) -> None:
    """Make the tables in an empty database, all or none; where another process was first, leave its tables alone."""
    with connections.transaction():
        if not connections.row("SELECT 1 FROM sqlite_master"):
            _create(connections.raw)


def require_own_schema(path: Path) -> None:
    """Refuse a database of somebody else's whose schema is not ours, letter by letter, before anything runs in it.

    A foreign schema could hold triggers, views or generated columns that run when rows are read or written.

    Raises:
        SchemaError: another version of retriever wrote it.
        InputError: its schema was changed.
        IndexDamagedError: it is no database.
    """
    try:
        with closing(connect(path, "ro")) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            objects = connection.execute(_OBJECTS).fetchall()
    except sqlite3.Error as error:
        raise explain(error, path) from error
    _require_version(version, path)
    if objects not in [_expected_objects(english=english) for english in (True, False)]:
        raise InputError(f"{path.name} has tables or triggers that retriever did not make.", hint="It is not taken in.")


def _expected_objects(*, english: bool) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as ours:
        _create(ours, english=english)
        return ours.execute(_OBJECTS).fetchall()


def create_word_index(connections: Connections, *, english: bool) -> None:
    """Make the word index anew, empty, in the caller's transaction: of English texts, or of terms parted by spaces."""
    connections.write("DROP TABLE contents_fts")
    connections.write(_word_index(english=english))


@cache
def dangling() -> Mapping[str, str]:
    """Return the tables of ours that refer to others, each with the condition of rows that refer to a missing one.

    The condition goes by the keys' values: rows of a table WITHOUT ROWID have no other name.
    """
    with closing(sqlite3.connect(":memory:")) as ours:
        ours.executescript(_TABLES)
        keys = ours.execute(_FOREIGN_KEYS).fetchall()
    missing: dict[str, list[str]] = {}
    for table, column, other, key in keys:
        there = f"SELECT 1 FROM {other} AS other WHERE other.{key} = {table}.{column}"
        missing.setdefault(table, []).append(f"({table}.{column} IS NOT NULL AND NOT EXISTS ({there}))")
    return {table: " OR ".join(conditions) for table, conditions in missing.items()}


def _require_version(version: int, path: Path) -> None:
    if version != VERSION:
        other = "an older" if version < VERSION else "a newer"
        raise SchemaError(
            f"{path} was written by {other} version of retriever.",
            hint="Make the index anew in another folder: `retriever index FILES --index DIR`.",
        )


def _create(connection: sqlite3.Connection, *, english: bool = True) -> None:
    from sqlite_utils import Database  # imports pandas where that is installed, which takes longer than a search

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    database.executescript(_TABLES)  # within the transaction at hand, unlike that of sqlite3
    database.execute(_word_index(english=english))


def _word_index(*, english: bool) -> str:
    tokens = _ENGLISH_TOKENS if english else _TERMS
    return (
        f"CREATE VIRTUAL TABLE contents_fts USING fts5 (text, tokenize = '{tokens}', content = 'searched', "
        "content_rowid = 'content_id')"
    )
