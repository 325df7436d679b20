"""An indexing run as a process that can be killed: ``python worker_run.py INDEX ENCODER ROWS WORKERS RAY``."""

import signal
import sys
from pathlib import Path

from index_fakes import ALL_WORDS, MOOD
from worker_fakes import LOAD, LoggedEncoder

from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.index.workers.embedder import Workers
from retriever.workspace import Index

BATCH, PIECE = 20, 5


def corpus(rows):
    """Documents with distinct texts of three words each."""
    words = len(ALL_WORDS)
    return [
        Document(
            f"d{row:04}",
            f"{ALL_WORDS[row % words]} {ALL_WORDS[row * 7 % words]} n{row}",
            {},
            file="corpus.jsonl",
            line=row,
        )
        for row in range(rows)
    ]


def run(index, encoder, rows, workers=None, ray=None):
    """Index so many documents in the base view and one more; return the report."""
    options = IndexingOptions(
        batch=BATCH, workers=Workers(workers, "ray" if ray else "processes", ray or "", load=LOAD, piece=PIECE)
    )
    with Index(index, encoder=LoggedEncoder(encoder)) as opened:
        return opened.add(corpus(rows), instructions=[MOOD], options=options)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is begun in the background ignores it
    folder, settings, count, processes, address = sys.argv[1:]
    run(Path(folder), Path(settings), int(count), int(processes) or None, address or None)
