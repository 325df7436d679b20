"""Saved clusterings: shown again as they were, with documents indexed since put to the nearest cluster.

What a reader has seen does not move: old documents keep their cluster, and a new one with the text of an old one joins
it. Any other new one that is further from its centroid than nearly all old members of the cluster are (than all, in a
small cluster) fits none and says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import assign_to
from retriever.clusters.clustering import Clustering, Material, read_material
from retriever.core.errors import EncoderMismatchError, UsageError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Document
from retriever.store.clusterings import StoredClustering
from retriever.store.database import Store
from retriever.store.filters import optional_filter
from retriever.store.views import View

NONE = -1  # the cluster of a document that fits none
_OUTSIDE = 1.0  # percent of a cluster's members that are as far from its centroid as what fits no more
_FEW_MEMBERS = 100  # members that a percentile says little of: the floor is then at most `_DEVIATIONS` below their mean
_DEVIATIONS = 3.0
_TOLERANCE = 1e-4  # of cosines, which half precision and another order of summation move


@dataclass(frozen=True, slots=True)
class SavedClustering:
    """A saved clustering over what the index holds now.

    The cluster of every document is known by id, `NONE` for a new one that fits none; new are documents that were not
    there, or had another text, when it was saved. The material is what there is now.
    """

    stored: StoredClustering
    assignments: Mapping[str, int]
    new: list[str]
    material: Material

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object: that of the clustering when it was saved, with what is new."""
        kept = {key: value for key, value in self.stored.document.items() if key not in ("texts", "floors")}
        counts = np.bincount([one for one in self.assignments.values() if one != NONE], minlength=len(kept["clusters"]))
        clusters = []
        for one in kept["clusters"]:
            examples = [id for id in one["examples"] if id in self.assignments]
            clusters.append({**one, "size": int(counts[one["cluster"]]), "examples": examples})
        outside = [id for id in self.new if self.assignments[id] == NONE]
        return {
            **kept,
            "documents": len(self.assignments),
            "clusters": clusters,
            "assignments": dict(self.assignments),
            "saved": {"name": self.stored.name, "created": self.stored.created},
            "new": self.new,
            "fits_none": outside,
        }


def save(store: Store, name: str, found: Clustering, fingerprint: str) -> None:
    """Save a clustering under a new name, with the encoder's fingerprint; the caller holds the writer's lock.

    Raises:
        UsageError: the name is empty or taken, or the clustering is of chosen documents.
    """
    if found.request.ids is not None:
        raise UsageError(
            "A clustering of chosen documents cannot be saved: later ones have no place in it.",
            hint="Save one of the whole index or of a filter.",
        )
    labels, cosines = found.partition.labels, found.partition.cosines
    floors = [_floor(cosines[labels == number]) for number in range(found.partition.k)]
    texts = {document.id: _text_key(document) for document in found.material.documents}
    document = {**found.to_json(), "texts": texts, "floors": floors}
    store.clusterings.save(name, fingerprint, document, found.partition.centroids)


def stored_clustering(store: Store, name: str, fingerprint: Callable[[str], str]) -> StoredClustering:
    """Return a saved clustering as it was saved.

    Args:
        store: the index's database.
        name: of the clustering.
        fingerprint: tells that of the encoder which reads under an instruction now.

    Raises:
        InputError: there is none of that name.
        IndexDamagedError: it is damaged.
        EncoderMismatchError: another encoder made it.
    """
    stored = store.clusterings.get(name)
    if stored.fingerprint != fingerprint(stored.document["instruction"]):
        raise EncoderMismatchError(
            f"The clustering {name!r} was made with another encoder.", hint="Cluster again and save it anew."
        )
    return stored


def shown_again(store: Store, view: View, stored: StoredClustering) -> SavedClustering:
    """Return a saved clustering over the documents that its complete view holds now."""
    where = optional_filter(stored.document["where"])
    with store.snapshot():
        return extended(stored, read_material(store, view, where))


def extended(stored: StoredClustering, material: Material) -> SavedClustering:
    """Return a saved clustering over the documents there are now."""
    known, texts = stored.document["assignments"], stored.document["texts"]
    fresh = [row for row, one in enumerate(material.documents) if texts.get(one.id) != _text_key(one)]
    labels, cosines = assign_to(material.vectors[fresh], stored.centroids)
    floors = np.asarray(stored.document["floors"], dtype=np.float32) - _TOLERANCE
    nearest = np.where(cosines < floors[labels], NONE, labels).tolist()
    by_text = {key: int(known[id]) for id, key in texts.items()}
    placed = {
        row: by_text.get(_text_key(material.documents[row]), number) for row, number in zip(fresh, nearest, strict=True)
    }
    assignments = {
        one.id: placed[row] if row in placed else int(known[one.id]) for row, one in enumerate(material.documents)
    }
    return SavedClustering(stored, assignments, [material.documents[row].id for row in fresh], material)


def _floor(cosines: NDArray[np.float32]) -> float:
    """Return the least cosine with a centroid at which a new document fits, given those of its members (n,)."""
    floor = float(np.percentile(cosines, _OUTSIDE))
    if len(cosines) >= _FEW_MEMBERS:
        return floor
    exact = cosines.astype(np.float64)
    return min(floor, float(exact.mean() - _DEVIATIONS * exact.std()))


def _text_key(document: Document) -> str:
    return content_hash(document.text).hex()[:16]
