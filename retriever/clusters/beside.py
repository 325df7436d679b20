"""The vectors by which rows are clustered: those of the question's view, with the base view's where both agree."""

import numpy as np

from retriever.clusters.arithmetic.joining import base_weight, joined
from retriever.clusters.material import Material
from retriever.core.types import Embeddings
from retriever.index.sources.catalog import sources_of
from retriever.index.sources.source import Source
from retriever.index.verdicts.features import ASKS_TOPIC
from retriever.index.verdicts.stored import stored_judgement
from retriever.store.database import Store


def clustered_by(store: Store, shown: Source, material: Material) -> Embeddings:
    """Return the vectors (n, d) of length 1 by which some rows are clustered, those of the view or joined ones.

    They are the view's where no other encoder fills the base view, or somebody answered or taught the question, or the
    base view lacks a row, or the two views are not alike (`joining.base_weight`).

    Args:
        store: of the index.
        shown: the view of the question.
        material: the rows.
    """
    base = _base(store, material) if shown.reads and shown.evidence else None
    if base is None:
        return material.vectors
    judged = stored_judgement(store, shown.view_id)
    topical = judged is not None and judged.features.get("asks_topic", 0.0) >= ASKS_TOPIC
    weight = base_weight(material.vectors, base, asks_topic=topical)
    return joined(material.vectors, base, weight) if weight else material.vectors


def _base(store: Store, material: Material) -> Embeddings | None:
    """Return the base view's vectors (n, e) of all rows; None where it lacks one."""
    plain = sources_of(store).active("")
    if plain is None or not material.contents:
        return None
    contents = np.array(material.contents, dtype=np.int64)
    stored = store.vectors.get(plain.view_id, np.unique(contents))
    rows = {content_id: row for row, content_id in enumerate(stored.content_ids.tolist())}
    if any(content_id not in rows for content_id in material.contents):
        return None
    return stored.embeddings[[rows[content_id] for content_id in material.contents]]
