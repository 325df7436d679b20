"""The tables, as an append-only list of steps. A released step is never edited: a change is a new function below it.

From the eighth on, a step itself seals the rows it changes (`checksums`); what it leaves keeps its seal, right or not.
"""

from typing import TYPE_CHECKING

from retriever.store.checksums import document_checksum, row_checksum, vector_checksum
from retriever.store.steps import StepList

if TYPE_CHECKING:
    from sqlite_utils import Database

MIGRATIONS = StepList()


@MIGRATIONS()
def m001_corpus(db: "Database") -> None:
    """Documents over distinct contents, and the words of the contents."""
    db.executescript(
        """
        -- AUTOINCREMENT: FAISS files hold content ids, so an id must never come to mean another text.
        CREATE TABLE contents (
            content_id INTEGER PRIMARY KEY AUTOINCREMENT,
            hash BLOB NOT NULL UNIQUE,
            text TEXT NOT NULL
        ) STRICT;
        CREATE TABLE documents (
            id TEXT NOT NULL PRIMARY KEY,
            content_id INTEGER NOT NULL REFERENCES contents (content_id),
            metadata TEXT NOT NULL
        ) STRICT;
        CREATE INDEX documents_by_content ON documents (content_id);
        CREATE TABLE fields (name TEXT NOT NULL PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID;

        CREATE VIRTUAL TABLE contents_words USING fts5 (
            text, content = 'contents', content_rowid = 'content_id', tokenize = 'porter unicode61'
        );
        CREATE TRIGGER contents_added AFTER INSERT ON contents BEGIN
            INSERT INTO contents_words (rowid, text) VALUES (new.content_id, new.text);
        END;
        CREATE TRIGGER contents_removed AFTER DELETE ON contents BEGIN
            INSERT INTO contents_words (contents_words, rowid, text) VALUES ('delete', old.content_id, old.text);
        END;
        CREATE TRIGGER contents_changed AFTER UPDATE OF text ON contents BEGIN
            INSERT INTO contents_words (contents_words, rowid, text) VALUES ('delete', old.content_id, old.text);
            INSERT INTO contents_words (rowid, text) VALUES (new.content_id, new.text);
        END;

        -- Counts the committed changes of data, for caches in any process.
        CREATE TABLE revision (number INTEGER NOT NULL) STRICT;
        INSERT INTO revision VALUES (0);
        """
    )


@MIGRATIONS()
def m002_vectors(db: "Database") -> None:
    """Views, their vectors and the FAISS files built from them."""
    db.executescript(
        """
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
            last_used TEXT NOT NULL
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
            UNIQUE (view_id, content_id)
        ) STRICT;
        CREATE INDEX vectors_by_view ON vectors (view_id);
        CREATE INDEX vectors_by_content ON vectors (content_id);
        -- No foreign key: a row outlives its view until somebody has removed its file.
        CREATE TABLE generations (
            generation_id INTEGER PRIMARY KEY AUTOINCREMENT,
            view_id INTEGER NOT NULL,
            path TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            factory TEXT NOT NULL,
            size INTEGER NOT NULL,
            watermark INTEGER NOT NULL,
            recall REAL,
            details TEXT NOT NULL,
            created TEXT NOT NULL,
            active INTEGER NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX generations_active ON generations (view_id) WHERE active;
        """
    )


@MIGRATIONS()
def m003_runs(db: "Database") -> None:
    """Records of what commands did and which rows they left out, and the index's settings."""
    db.executescript(
        """
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
        """
    )


@MIGRATIONS()
def m004_clusterings(db: "Database") -> None:
    """Clusterings that were given a name."""
    db.executescript(
        """
        CREATE TABLE clusterings (
            name TEXT NOT NULL PRIMARY KEY,
            fingerprint TEXT NOT NULL,
            document TEXT NOT NULL,
            centroids BLOB NOT NULL,
            sha256 TEXT NOT NULL,
            created TEXT NOT NULL
        ) STRICT;
        """
    )


@MIGRATIONS()
def m005_lazy_views(db: "Database") -> None:
    """Whether only searches fill a view. Of the views there are, those are that have no FAISS file."""
    db.executescript(
        """
        ALTER TABLE views ADD COLUMN lazy INTEGER NOT NULL DEFAULT 0;
        UPDATE views SET lazy = 1 WHERE instruction != ''
            AND NOT EXISTS (SELECT 1 FROM generations WHERE generations.view_id = views.view_id);
        """
    )


@MIGRATIONS()
def m006_similarities(db: "Database") -> None:
    """How alike the vectors of a view are at random."""
    db.executescript(
        """
        CREATE TABLE similarities (
            view_id INTEGER NOT NULL PRIMARY KEY REFERENCES views (view_id) ON DELETE CASCADE,
            vectors INTEGER NOT NULL,
            quantiles BLOB NOT NULL
        ) STRICT;
        """
    )


@MIGRATIONS()
def m007_checksums(db: "Database") -> None:
    """A checksum for every document and vector, and seals over the rows that say what the others mean."""
    db.conn.create_function("document_checksum", 3, document_checksum, deterministic=True)
    db.conn.create_function("vector_checksum", 4, vector_checksum, deterministic=True)
    db.executescript(
        """
        ALTER TABLE documents ADD COLUMN checksum INTEGER;
        ALTER TABLE vectors ADD COLUMN checksum INTEGER;
        UPDATE documents SET checksum = document_checksum(id, content_id, metadata);
        UPDATE vectors SET checksum = vector_checksum(view_id, content_id, vector, words);
        CREATE TABLE seals (
            kind TEXT NOT NULL, key TEXT NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (kind, key)
        ) STRICT, WITHOUT ROWID;
        """
    )


@MIGRATIONS()
def m008_vector_backends(db: "Database") -> None:
    """Generations of any vector backend: those there are are FAISS's, and what opens a file becomes its handle.

    A record that differs from its seal is dropped, and what it named is built again. A type of index that is never
    chosen by itself was asked for, and is remembered.
    """
    seals = dict(db.conn.execute("SELECT key, checksum FROM seals WHERE kind = 'generation'").fetchall())
    sealed = db.conn.execute("SELECT COUNT(*) FROM seals").fetchone()[0] > 0  # not where the last step made the table
    for row in db.conn.execute(
        "SELECT generation_id, view_id, path, sha256, factory, size, watermark, recall, details, active "
        "FROM generations"
    ).fetchall():
        if sealed and seals.get(str(row[0])) != row_checksum(row):
            db.conn.execute("DELETE FROM generations WHERE generation_id = ?", row[:1])
    db.executescript(
        """
        DELETE FROM generations WHERE NOT json_valid(details);
        ALTER TABLE generations ADD COLUMN backend TEXT NOT NULL DEFAULT 'faiss';
        ALTER TABLE generations ADD COLUMN handle TEXT NOT NULL DEFAULT '{}';
        UPDATE generations SET
            handle = json_object(
                'path', path, 'sha256', sha256, 'size', size,
                'dim', COALESCE((SELECT dim FROM views WHERE views.view_id = generations.view_id), 0),
                'probes', COALESCE(json_extract(details, '$.probes'), 0)
            ),
            details = json_set(json_remove(details, '$.probes'), '$.factory', factory);
        INSERT OR IGNORE INTO settings SELECT 'vector_index', json_object('factory', factory) FROM generations
            WHERE active AND factory != 'SQfp16' AND factory NOT GLOB 'IVF[0-9]*,SQfp16'
            ORDER BY generation_id DESC LIMIT 1;
        ALTER TABLE generations DROP COLUMN path;
        ALTER TABLE generations DROP COLUMN sha256;
        ALTER TABLE generations DROP COLUMN factory;
        DELETE FROM seals WHERE kind = 'generation';
        """
    )
    changed = {
        "generation": "SELECT generation_id, view_id, backend, handle, size, watermark, recall, details, active "
        "FROM generations",
        "setting": "SELECT key, value FROM settings WHERE key = 'vector_index'",
    }
    for kind, sql in changed.items():
        rows = [(kind, str(row[0]), row_checksum(row)) for row in db.conn.execute(sql).fetchall()]
        db.conn.executemany("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", rows)


@MIGRATIONS()
def m009_revisions(db: "Database") -> None:
    """A revision of the documents alone, and how often vectors were taken out of a view."""
    db.executescript(
        """
        ALTER TABLE revision ADD COLUMN documents INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE views ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;
        """
    )


@MIGRATIONS()
def m010_heads(db: "Database") -> None:
    """What examples taught of a view: the view of the vectors it gives, and what it was made of."""
    db.executescript(
        """
        CREATE TABLE heads (
            view_id INTEGER NOT NULL PRIMARY KEY REFERENCES views (view_id) ON DELETE CASCADE,
            source_id INTEGER NOT NULL UNIQUE REFERENCES views (view_id) ON DELETE CASCADE,
            plain_id INTEGER NOT NULL REFERENCES views (view_id) ON DELETE CASCADE,
            arrays BLOB NOT NULL,
            document TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            created TEXT NOT NULL
        ) STRICT;
        CREATE INDEX heads_by_plain ON heads (plain_id);
        """
    )


@MIGRATIONS()
def m011_units(db: "Database") -> None:
    """The parts of texts that are embedded in their place, where an index is made of such; none in all there are."""
    db.executescript(
        """
        CREATE TABLE units (
            unit_id INTEGER PRIMARY KEY,
            whole_id INTEGER NOT NULL REFERENCES contents (content_id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            start INTEGER NOT NULL,
            stop INTEGER NOT NULL,
            content_id INTEGER NOT NULL REFERENCES contents (content_id) ON DELETE CASCADE,
            checksum INTEGER NOT NULL,
            UNIQUE (whole_id, number)
        ) STRICT;
        CREATE INDEX units_by_content ON units (content_id);
        """
    )


@MIGRATIONS()
def m012_edits(db: "Database") -> None:
    """What people change in saved clusterings, and the hits they like or do not."""
    db.executescript(
        """
        CREATE TABLE edits (
            edit_id INTEGER PRIMARY KEY AUTOINCREMENT,
            clustering TEXT NOT NULL REFERENCES clusterings (name) ON DELETE CASCADE,
            change TEXT NOT NULL,
            author TEXT NOT NULL,
            made TEXT NOT NULL,
            undone TEXT
        ) STRICT;
        CREATE INDEX edits_by_clustering ON edits (clustering);
        CREATE TABLE marks (
            mark_id INTEGER PRIMARY KEY AUTOINCREMENT,
            query TEXT NOT NULL,
            instruction TEXT NOT NULL,
            document_id TEXT NOT NULL,
            liked INTEGER NOT NULL,
            made TEXT NOT NULL,
            UNIQUE (query, instruction, document_id)
        ) STRICT;
        """
    )


@MIGRATIONS()
def m013_verdicts(db: "Database") -> None:
    """Whether the question of a view is followed, as it was found."""
    db.executescript(
        """
        CREATE TABLE verdicts (
            view_id INTEGER NOT NULL PRIMARY KEY REFERENCES views (view_id) ON DELETE CASCADE,
            document TEXT NOT NULL
        ) STRICT;
        """
    )
