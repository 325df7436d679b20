"""Saved clusterings: shown again as they were, with documents indexed since put to the nearest cluster.

What a reader has seen does not move: old documents keep their cluster, and a new one with the text of an old one joins
it. Where any other new one goes is stored when it is first shown; one that fits no cluster says so. What people have
changed since comes on top (`edits`), and new documents go through it too.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from retriever.clusters.arithmetic.choice import Choice
from retriever.clusters.arithmetic.consensus import Stability
from retriever.clusters.arithmetic.naming import KEYWORDS
from retriever.clusters.by_names import base_vectors
from retriever.clusters.clustering import Cluster, Clustering, ClusterRequest, Made, documents_of
from retriever.clusters.describing import described_anew
from retriever.clusters.edits import Edit, Edited, edit_of, edited
from retriever.clusters.fields import Spread, spreads
from retriever.clusters.material import Material, read_material, text_key
from retriever.clusters.phrases import counted
from retriever.clusters.placing import Places, Placing, placing_json, placing_of, stored_vectors
from retriever.clusters.references import NONE
from retriever.clusters.resemblance import Resemblance
from retriever.core.errors import UsageError
from retriever.index.filtering import request_filter
from retriever.index.opened import Opened
from retriever.index.selection import selected_documents
from retriever.index.sources.source import Source
from retriever.store.clusterings import LATER, StoredClustering
from retriever.store.database import Store
from retriever.store.filters import Filter

_STORED = ("instruction", "where", "chosen", "stability", "made", "written_by", "resembles")  # of the JSON object


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedClustering(Clustering):
    """A saved clustering over what the index holds now.

    Attributes:
        name: what it was saved under.
        created: when, ISO 8601 in UTC.
        new: ids of documents that were not there, or had another text, when it was saved.
        edits: all changes, in the order they were made, those taken back too.
        state: the clustering after the changes that hold.
    """

    name: str
    created: str
    new: Sequence[str]
    edits: Sequence[Edit]
    state: Edited

    @property
    def fits_none(self) -> list[str]:
        """Ids of the new documents that fit no cluster."""
        return [id for id in self.new if self.places[id][0] == NONE]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object: that of a clustering, with what is new and changed."""
        return {
            **Clustering.to_json(self),
            "saved": {"name": self.name, "created": self.created},
            "new": list(self.new),
            "fits_none": self.fits_none,
            "edits": [edit.to_json() for edit in self.edits],
        }


@dataclass(frozen=True, eq=False)
class Kept:
    """A clustering as it was saved.

    Attributes:
        fingerprint: of the view.
        request: with the instruction and the filter.
        texts: what told the text of every document from others, by its id.
        places: the clusters of every document by id.
        later: the clusters of texts that came after it was saved and were shown since, by what tells them.
    """

    name: str
    created: str
    fingerprint: str
    request: ClusterRequest
    clusters: Sequence[Cluster]
    choice: Choice | None
    stability: Stability | None
    made: Made
    by: str
    texts: Mapping[str, str]
    places: Places
    later: Places
    placing: Placing
    resembles: Resemblance | None = None

    @property
    def known(self) -> dict[str, tuple[int, ...]]:
        """The clusters of every text that was shown, by what tells it."""
        return {**self.later, **{key: self.places[id] for id, key in self.texts.items()}}

    @property
    def question(self) -> str:
        """The question of the view; empty for the base view."""
        return self.request.instruction or ""


def save(store: Store, name: str, found: Clustering, fingerprint: str) -> None:
    """Save a clustering under a new name, with the fingerprint of its view; the caller holds the writer's lock.

    Raises:
        UsageError: the name is empty or taken, or the clustering is of chosen documents.
    """
    if found.request.ids is not None:
        raise UsageError(
            "A clustering of chosen documents cannot be saved: later ones have no place in it.",
            hint="Save one of the whole index or of a filter.",
        )
    made = found.to_json()
    document = {
        **{
            name: made[name]
            for name in ("instruction", "where", "chosen", "stability", "made", "written_by", "several", "resembles")
        },
        "clusters": [cluster.stored() for cluster in found.clusters],
        "texts": found.material.text_keys,
        "places": found.places,
        "placing": placing_json(found.placing),
    }
    store.clusterings.save(name, fingerprint, document, stored_vectors(found.placing))


def kept(store: Store, stored: StoredClustering) -> Kept:
    """Return a clustering as it was saved, from what `save` stored; its filter is that of the answers known now."""
    document = stored.document
    return _kept(stored, request_filter(store, document["where"], document["instruction"]))


def _kept(stored: StoredClustering, where: Filter | None) -> Kept:
    document = stored.document
    clusters = [Cluster.from_stored(cluster) for cluster in document["clusters"]]
    chosen, stability = document["chosen"], document["stability"]
    return Kept(
        name=stored.name,
        created=stored.created,
        fingerprint=stored.fingerprint,
        request=ClusterRequest(document["instruction"], where=where),
        clusters=clusters,
        choice=chosen and TypeAdapter(Choice).validate_python({"k": len(clusters), **chosen}),
        stability=stability and TypeAdapter(Stability).validate_python(stability),
        made=document["made"],
        by=document["written_by"] or "",
        texts=document["texts"],
        places=_places(document["places"]),
        later=_places(document.get(LATER, {})),
        placing=placing_of(document["placing"], stored.centroids),
        resembles=Resemblance(**document["resembles"]) if document.get("resembles") else None,
    )


def shown_again(opened: Opened, shown: Source, saved: Kept) -> SavedClustering:
    """Return a saved clustering over the documents that its complete view holds now, and store where new ones went."""
    store = opened.store
    with store.snapshot():
        material = read_material(store, shown, saved.request.where)
        edits = [edit_of(edit) for edit in store.edits.all(saved.name)]
    places, new = extended(opened, saved, material)
    known, keys = saved.known, material.text_keys
    if later := {keys[id]: places[id] for id in new if keys[id] not in known}:
        store.best_effort_write(partial(store.clusterings.place_later, saved.name, later))
    state = edited([cluster.label for cluster in saved.clusters], places, edits, material)
    return SavedClustering(
        request=saved.request,
        view=shown.view_id,
        material=material,
        clusters=_recounted(store, saved, material, state),
        places=state.places,
        placing=saved.placing,
        made=saved.made,
        by=saved.by,
        choice=None if state.touched else saved.choice,
        stability=None if state.touched else saved.stability,
        resembles=None if state.touched else saved.resembles,
        name=saved.name,
        created=saved.created,
        new=new,
        edits=edits,
        state=state,
    )


def as_saved(store: Store, stored: StoredClustering) -> Clustering:
    """Return a saved clustering, changes included, whose view is gone: of the texts that it has put to a cluster.

    Without a filter, texts that were put to one later are among these. Clusters have nothing but number and name.
    """
    saved, documents, places = _kept(stored, None), [], {}
    later = {} if stored.document["where"] else saved.known
    for document in selected_documents(store, None, None):
        key = text_key(document.text)
        place = saved.places[document.id] if saved.texts.get(document.id) == key else later.get(key)
        if place is not None:
            documents.append(document)
            places[document.id] = place
    material = Material(documents, np.empty((len(documents), 0), np.float32), [()] * len(documents))
    edits = [edit_of(edit) for edit in store.edits.all(saved.name)]
    state = edited([cluster.label for cluster in saved.clusters], places, edits, material)
    clusters = [Cluster(number, label) for number, label in state.labels.items()]
    return Clustering(saved.request, 0, material, clusters, state.places, saved.placing, saved.made)


def extended(opened: Opened, saved: Kept, material: Material) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return the clusters of the documents there are now by id, before any change, and the ids of the new ones."""
    known, keys = saved.known, material.text_keys
    new = [row for row, document in enumerate(material.documents) if saved.texts.get(document.id) != keys[document.id]]
    unseen = [row for row in new if keys[material.documents[row].id] not in known]
    placed: dict[int, tuple[int, ...]] = {}
    if unseen:
        base = base_vectors(opened, saved.placing, [material.documents[row] for row in unseen])
        placed = dict(zip(unseen, saved.placing.place(unseen, material, base), strict=True))
    placed |= {row: known[keys[material.documents[row].id]] for row in set(new) - placed.keys()}
    rows = enumerate(material.documents)
    places = {document.id: placed[row] if row in placed else saved.places[document.id] for row, document in rows}
    return places, [material.documents[row].id for row in new]


def _clusters(saved: Kept, material: Material, state: Edited) -> list[Cluster]:
    """Return the clusters that are there now, those that people changed described anew, and by size where some are.

    Those that say nothing come last. A name that somebody gave holds of all members.
    """
    touched = sorted(state.touched & state.labels.keys())
    known = {cluster.number: cluster for cluster in saved.clusters}
    definitions = {number: cluster.description for number, cluster in known.items()}
    anew = described_anew(material, state.places, touched, saved.request.instruction) if touched else {}
    for number, cluster in anew.items():
        parts = [definitions.get(part, "") for part in state.merged.get(number, [number])]
        kept = cluster.holds if state.labels[number] == cluster.label else 1.0
        known[number] = replace(cluster, description=" ".join(filter(None, parts)), holds=kept)
    documents, result = documents_of(material, state.places), []
    for number, label in sorted(state.labels.items()):
        cluster = known[number]
        examples = [id for id in cluster.examples if id in state.places]
        size = sum(number in clusters for clusters in state.places.values())
        holds = 1.0 if number in state.renamed else cluster.holds
        cluster = replace(cluster, label=label, size=size, documents=documents[number], examples=examples, holds=holds)
        result.append(cluster)
    return sorted(result, key=lambda cluster: (cluster.empty, -cluster.size)) if touched else result


def _recounted(store: Store, saved: Kept, material: Material, state: Edited) -> list[Cluster]:
    """Return the clusters that are there now with counts of the documents in them: of answers, and of the same fields.

    A field that no document has any more is left out.
    """
    clusters = _clusters(saved, material, state)
    counts: list[dict[str, Spread]] = [{} for _ in range(state.count)]
    for field in dict.fromkeys(chain.from_iterable(cluster.spreads for cluster in saved.clusters)):
        with suppress(UsageError):
            for known, new in zip(counts, spreads(store, material, state.places, [field], state.count), strict=True):
                known.update(new)
    said: dict[int, list[str]] = {cluster.number: [] for cluster in clusters}
    for document, answer in zip(material.documents, material.phrases or [], strict=False):
        for number in state.places[document.id]:
            said.get(number, []).append(answer)
    return [
        replace(
            cluster,
            spreads=counts[cluster.number],
            phrases=counted(said[cluster.number])[:KEYWORDS] if cluster.phrases else (),
        )
        for cluster in clusters
    ]


def _places(document: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(clusters) for key, clusters in document.items()}
