"""SQLite beside a FAISS file, kept the usual way: the peer that `torture` kills as it kills an index of ours.

Documents are committed first, a batch at a time. Their vectors are added to a FAISS index in memory, which is written
over the old file when a command ends. The next run embeds what SQLite does not know. Nothing ties the two together.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.types import Document, Embeddings

BATCH = 4
ROWS = "SELECT number, id, text FROM documents ORDER BY number"


class UsualPair:
    """A folder with ``documents.sqlite3`` and ``vectors.faiss``.

    Args:
        folder: is made where it is missing.
        encoder: what to embed with.
    """

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._database, self._vectors = folder / "documents.sqlite3", folder / "vectors.faiss"
        self._encoder = encoder

    def add(self, documents: Sequence[Document]) -> None:
        """Insert new documents and replace those whose text changed."""
        vectors = self._read()
        with closing(sqlite3.connect(self._database)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS documents (number INTEGER PRIMARY KEY, id UNIQUE, text)")
            known = {id: (number, text) for number, id, text in database.execute(ROWS)}
            fresh = [
                document for document in documents if document.id not in known or known[document.id][1] != document.text
            ]
            for start in range(0, len(fresh), BATCH):
                batch = fresh[start : start + BATCH]
                embeddings = self._encoder.encode_with_words([document.text for document in batch]).embeddings
                with database:
                    self._remove(database, vectors, [document.id for document in batch])
                    rows = [(document.id, document.text) for document in batch]
                    numbers = [
                        database.execute("INSERT INTO documents (id, text) VALUES (?, ?)", row).lastrowid
                        for row in rows
                    ]
                vectors.add_with_ids(embeddings, np.array(numbers, dtype=np.int64))
        faiss.write_index(vectors, str(self._vectors))

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents."""
        vectors = self._read()
        with closing(sqlite3.connect(self._database)) as database, database:
            self._remove(database, vectors, ids)
        faiss.write_index(vectors, str(self._vectors))

    def problems(self) -> list[str]:
        """Return what does not fit together any more."""
        try:
            vectors = self._read()
        except RuntimeError as error:
            return [f"the FAISS file cannot be read: {error}"]
        stored = dict(zip(*self._stored(vectors), strict=True))
        with closing(sqlite3.connect(self._database)) as database:
            rows = {number: text for number, _, text in database.execute(ROWS)}
        wanted = {number: self._encoder.encode([text])[0] for number, text in rows.items()}
        problems = []
        if missing := wanted.keys() - stored.keys():
            problems.append(f"{len(missing)} documents have no vector")
        if orphans := stored.keys() - wanted.keys():
            problems.append(f"{len(orphans)} vectors have no document")
        if any(not np.array_equal(stored[number], wanted[number]) for number in stored.keys() & wanted.keys()):
            problems.append("a vector is another text's")
        return problems

    def _read(self) -> Any:  # noqa: ANN401 - FAISS has no types
        if self._vectors.exists():
            return faiss.read_index(str(self._vectors))
        return faiss.IndexIDMap2(faiss.IndexFlatIP(self._encoder.dim))

    def _stored(self, vectors: Any) -> tuple[list[int], Embeddings]:  # noqa: ANN401
        if not vectors.ntotal:
            return [], np.empty((0, self._encoder.dim), np.float32)
        numbers = faiss.vector_to_array(vectors.id_map)
        return numbers.tolist(), vectors.reconstruct_batch(numbers)

    def _remove(self, database: sqlite3.Connection, vectors: Any, ids: Sequence[str]) -> None:  # noqa: ANN401
        marks = ", ".join("?" * len(ids))
        numbers = [row[0] for row in database.execute(f"SELECT number FROM documents WHERE id IN ({marks})", ids)]
        database.execute(f"DELETE FROM documents WHERE id IN ({marks})", ids)
        if numbers:
            vectors.remove_ids(np.array(numbers, dtype=np.int64))
