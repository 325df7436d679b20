"""Saved clusterings: shown again as they were, with documents indexed since put to the nearest cluster.

What a reader has seen does not move: old documents keep their cluster, and a new one with the text of an old one joins
it. Any other new one that is further from its centroid than nearly all old members of the cluster are (than all, in a
small cluster) fits none and says so. What people have changed since comes on top (`editing`), and new documents go
through it too.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import assign_to
from retriever.clusters.clustering import Clustering
from retriever.clusters.editing import NONE, Edited, Placed, Places, describe, edited
from retriever.clusters.having import topics_of
from retriever.clusters.material import Material, read_material
from retriever.clusters.regrouping import described_anew
from retriever.core.errors import EncoderMismatchError, UsageError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Document
from retriever.store.clusterings import StoredClustering
from retriever.store.database import Store
from retriever.store.edits import Edit
from retriever.store.filters import optional_filter
from retriever.store.views import View

_OUTSIDE = 1.0  # percent of a cluster's members that are as far from its centroid as what fits no more
_FEW_MEMBERS = 100  # members that a percentile says little of: the floor is then at most `_DEVIATIONS` below their mean
_DEVIATIONS = 3.0
_TOLERANCE = 1e-4  # of cosines, which half precision and another order of summation move
_OWN = ("texts", "floors", "places", "margins")  # keys of what is stored that only placing documents needs


@dataclass(frozen=True, slots=True)
class SavedClustering:
    """A saved clustering over what the index holds now.

    Attributes:
        stored: as it was saved.
        material: the documents there are now.
        new: ids of documents that were not there, or had another text, when it was saved.
        places: the clusters of every document by id before any change, the nearest first; `NONE` of one that fits none.
        edits: all changes, in the order they were made, those taken back too.
        state: the clustering after the changes that hold.
    """

    stored: StoredClustering
    material: Material
    new: list[str]
    places: Places
    edits: Sequence[Edit]
    state: Edited

    @property
    def assignments(self) -> Mapping[str, int]:
        """The cluster of every document by id, the nearest of several; `NONE` where it fits none."""
        return {id: clusters[0] for id, clusters in self.state.places.items()}

    @property
    def several(self) -> bool:
        """Whether a document may be in several clusters."""
        return bool(self.stored.document.get("several"))

    @property
    def placed(self) -> Placed:
        """The documents, as changes look at them."""
        return Placed({one.id: text_key(one) for one in self.material.documents}, self.material.vectors)

    def clusters(self) -> list[dict[str, Any]]:
        """Return the clusters as JSON, by number; those that people changed are described anew."""
        saved = {one["cluster"]: one for one in self.stored.document["clusters"]}
        anew = self.state.touched & self.state.labels.keys()
        if anew:
            instruction = self.stored.document["instruction"]
            saved |= described_anew(self.material, self.state.places, sorted(anew), instruction)
        there, found = self.state.places.keys(), []
        for number, label in sorted(self.state.labels.items()):
            one = {**saved[number], "cluster": number, "label": label}
            examples = [id for id in one["examples"] if id in there]
            size = sum(number in clusters for clusters in self.state.places.values())
            found.append({**one, "size": size, "examples": examples})
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object: that of the clustering when it was saved, with what is new and changed."""
        kept = {key: value for key, value in self.stored.document.items() if key not in _OWN}
        assignments, clusters = self.assignments, self.clusters()
        several = {}
        if self.several:
            several = {"places": {id: list(one) for id, one in self.state.places.items() if len(one) > 1}}
        topics = topics_of({**kept, **several, "assignments": assignments})
        documents = Counter(number for numbers in topics.values() for number in numbers)
        clusters = [{**one, "documents": documents[one["cluster"]]} for one in clusters]
        unmoved = not self.state.touched
        return {
            **kept,
            "documents": len(topics),
            "units": None if kept.get("units") is None else len(assignments),
            "k": len(clusters),
            "clusters": clusters,
            "levels": kept["levels"] if unmoved else [],
            "months": kept["months"] if unmoved else {},
            "assignments": assignments,
            **several,
            "hidden": sorted(self.state.hidden),
            "saved": {"name": self.stored.name, "created": self.stored.created},
            "new": self.new,
            "fits_none": [id for id in self.new if assignments[id] == NONE],
            "edits": [
                {
                    "edit": one.number,
                    "does": describe(one.change),
                    "author": one.author,
                    "made": one.made,
                    "undone": one.undone,
                }
                for one in self.edits
            ],
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
    texts = {document.id: text_key(document) for document in found.material.documents}
    document = {**found.to_json(), "texts": texts, "floors": floors}
    store.clusterings.save(name, fingerprint, document, found.partition.centroids)


def stored_clustering(store: Store, name: str, fingerprint: Callable[[str], str]) -> StoredClustering:
    """Return a saved clustering as it was saved.

    Args:
        store: the index's database.
        name: of the clustering.
        fingerprint: tells that of the view which answers an instruction now.

    Raises:
        InputError: there is none of that name.
        IndexDamagedError: it is damaged.
        EncoderMismatchError: another encoder made it.
    """
    stored = store.clusterings.get(name)
    if stored.fingerprint != fingerprint(stored.document["instruction"]):
        raise EncoderMismatchError(
            f"The clustering {name!r} was made with another encoder, or before its question was taught or forgotten.",
            hint="Cluster again and save it anew.",
        )
    return stored


Place = Callable[[StoredClustering, Material, Sequence[int]], list[tuple[int, ...]]]
"""Puts some rows of the material, documents that are new, to clusters of a saved clustering: the nearest first."""


def shown_again(store: Store, view: View, stored: StoredClustering, place: Place | None = None) -> SavedClustering:
    """Return a saved clustering over the documents that its complete view holds now.

    Args:
        store: the index's database.
        view: the view.
        stored: the clustering.
        place: puts new documents to clusters; to the nearest centroid by default.
    """
    where = optional_filter(stored.document["where"])
    with store.snapshot():
        return extended(stored, read_material(store, view, where), store.edits.all(stored.name), place)


def extended(
    stored: StoredClustering, material: Material, edits: Sequence[Edit] = (), place: Place | None = None
) -> SavedClustering:
    """Return a saved clustering over the documents there are now."""
    known, texts = stored.document["assignments"], stored.document["texts"]
    several = stored.document.get("places", {})
    before: Places = {id: tuple(several.get(id, (int(number),))) for id, number in known.items()}
    fresh = [row for row, one in enumerate(material.documents) if texts.get(one.id) != text_key(one)]
    nearest = (place or _nearest)(stored, material, fresh)
    by_text = {key: before[id] for id, key in texts.items()}
    placed = {
        row: by_text.get(text_key(material.documents[row]), clusters)
        for row, clusters in zip(fresh, nearest, strict=True)
    }
    places = {one.id: placed[row] if row in placed else before[one.id] for row, one in enumerate(material.documents)}
    labels = [one["label"] for one in stored.document["clusters"]]
    new = [material.documents[row].id for row in fresh]
    found = SavedClustering(stored, material, new, places, edits, Edited({}, {}))
    holding = [one.change for one in edits if one.undone is None]
    return replace(found, state=edited(labels, places, holding, found.placed))


def text_key(document: Document) -> str:
    """Return what tells a document's text from others, as a saved clustering keeps it."""
    return content_hash(document.text).hex()[:16]


def _nearest(stored: StoredClustering, material: Material, rows: Sequence[int]) -> list[tuple[int, ...]]:
    """Put rows to the cluster of the nearest centroid, or to none where they are further than its members are."""
    labels, cosines = assign_to(material.vectors[list(rows)], stored.centroids)
    floors = np.asarray(stored.document["floors"], dtype=np.float32) - _TOLERANCE
    return [(number,) for number in np.where(cosines < floors[labels], NONE, labels).tolist()]


def _floor(cosines: NDArray[np.float32]) -> float:
    """Return the least cosine with a centroid at which a new document fits, given those of its members (n,)."""
    floor = float(np.percentile(cosines, _OUTSIDE))
    if len(cosines) >= _FEW_MEMBERS:
        return floor
    exact = cosines.astype(np.float64)
    return min(floor, float(exact.mean() - _DEVIATIONS * exact.std()))
