"""Whether Qdrant answers as the index does: documents handed over, read back, and searched on both sides.

python benchmarks/handover.py --rows 20000 --output benchmarks/results/handover.json

Vectors are random, of length 1, so that nothing is near anything by chance of the texts; two views. Qdrant is its
client's local mode, in a folder, unless ``--server`` gives an address; there every search is asked to be exact.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.types import Document, Encoded
from retriever.index.handover.contents import Contents
from retriever.index.handover.qdrant import HandedOver, export_qdrant
from retriever.workspace import Index

VIEW = "What broke?"
K = 10


class Random(Encoder):
    """Draws a vector of length 1 from the hash of a text and its instruction; it has no words to say."""

    spec = EncoderSpec("random".ljust(64, "0"), 128, pooling="hash")

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return the vectors of every text under every instruction."""
        return [
            Encoded(np.stack([self._row(text, one) for text in texts]), [[] for _ in texts]) for one in instructions
        ]

    def _row(self, text: str, instruction: str) -> Any:  # noqa: ANN401 - (dim,) float32
        seed = hashlib.sha256(f"{instruction}\0{text}".encode()).digest()[:8]
        row = np.random.default_rng(int.from_bytes(seed)).normal(size=self.dim)
        return (row / np.linalg.norm(row)).astype(np.float32)


def compare(folder: Path, handed: HandedOver, client: Any, queries: int) -> dict[str, Any]:  # noqa: ANN401
    """Compare ids, payloads and the nearest documents of some queries, by view."""
    from qdrant_client import models

    chance = np.random.default_rng(1)
    found: dict[str, Any] = {}
    exact = models.SearchParams(exact=True) if handed.location.startswith("http") else None
    with Index(folder, encoder=Random()) as index:
        contents = Contents(index.store)
        parts = list(contents.rows())
        ids = np.array([one.id for part in parts for one in part.documents])
        payloads, after = [], None
        while True:
            points, after = client.scroll(handed.collection, limit=5000, offset=after, with_payload=["id", "metadata"])
            payloads += [one.payload for one in points]
            if after is None:
                break
        metadata = {one.id: dict(one.metadata) for part in parts for one in part.documents}
        found["same_ids_and_metadata"] = {one["id"]: one["metadata"] for one in payloads} == metadata
        for view in contents.views:
            rows = np.concatenate([part.vectors[view.name] for part in parts])
            asked = chance.normal(size=(queries, rows.shape[1])).astype(np.float32)
            asked /= np.linalg.norm(asked, axis=1, keepdims=True)
            same, apart, took = 0, 0.0, 0.0
            for query in asked:
                scores = rows @ query
                best = np.lexsort((ids, -scores))[:K]
                began = time.perf_counter()
                hits = client.query_points(
                    handed.collection, query=query.tolist(), using=view.name, limit=K, search_params=exact
                ).points
                took += time.perf_counter() - began
                same += [one.payload["id"] for one in hits] == ids[best].tolist()
                apart = max(apart, float(np.abs(np.array([one.score for one in hits]) - scores[best]).max()))
            found[view.name] = {
                "queries": queries,
                "same_top_10": same,
                "largest_difference_of_scores": apart,
                "milliseconds_a_query": round(1000 * took / queries, 2),
            }
    return found


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--server", help="http://HOST:6333")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [Document(f"d{row}", f"text {row}", {"stars": row % 5}) for row in range(options.rows)]
        with Index(folder / "index", encoder=Random()) as index:
            index.add(rows, instructions=[VIEW])
        began = time.perf_counter()
        handed = export_qdrant(folder / "index", options.server or str(folder / "out"), "handover-check")
        seconds = time.perf_counter() - began
        from retriever.vectors.qdrant_server import connect

        client = connect(options.server) if options.server else _opened(folder / "out")
        try:
            report = compare(folder / "index", handed, client, options.queries)
        finally:
            client.close()
    write("handover", options, {"points": handed.points, "export_seconds": round(seconds, 1), **report})


def _opened(folder: Path) -> Any:  # noqa: ANN401 - a qdrant_client.QdrantClient
    """Open the folder that was written above."""
    from qdrant_client import QdrantClient

    return QdrantClient(path=str(folder))


if __name__ == "__main__":
    main()
