"""Put the documents of a view into clusters, by spherical k-means or by the answers that examples taught."""

from collections.abc import Sequence
from dataclasses import replace

from retriever.clusters.arithmetic.choice import choose_k
from retriever.clusters.arithmetic.kmeans import check_count, grouped, spherical_kmeans
from retriever.clusters.beside import clustered_by
from retriever.clusters.classifying import sorted_by_lessons
from retriever.clusters.clustering import Clustering, ClusterRequest
from retriever.clusters.describing import described
from retriever.clusters.fields import field_values, growth, spread
from retriever.clusters.material import Material, read_material
from retriever.clusters.placing import centroids_of
from retriever.index.selection import nothing_matches, selected_documents
from retriever.index.sources.source import Source
from retriever.store.database import Store
from retriever.store.filters import resolve_field


def check_fields(store: Store, request: ClusterRequest) -> None:
    """Refuse fields that no document has, before anything is read.

    Raises:
        FilterError: a field is not there, or its name belongs to several.
    """
    known = store.documents.fields()
    for name in [*request.by, *filter(None, [request.over])]:
        resolve_field(name, known)


def check(store: Store, request: ClusterRequest) -> None:
    """Refuse what cannot be clustered, from the documents alone: before anything is embedded for it.

    Raises:
        InputError: no document matches the filter, or none of the ids is there.
        UsageError: more clusters are wanted than there are documents, or a field is not there or holds no dates.
        FilterError: the filter names an unknown field.
    """
    documents = selected_documents(store, request.where, request.ids)
    if not documents:
        raise nothing_matches(store, request.where)
    if request.k is not None:
        check_count(request.k, len(documents))
    fields = store.documents.fields()
    for name in request.by:
        field_values(documents, name, fields)
    if request.over:
        growth(field_values(documents, request.over, fields), [0] * len(documents), 1)


def cluster(store: Store, shown: Source, request: ClusterRequest, learned: Sequence[str] = ()) -> Clustering:
    """Cluster the documents of a complete view; errors as for `check`.

    Args:
        store: of the index.
        shown: the view.
        request: where it gives no number of clusters, and texts have several of the learned answers, each is one.
        learned: the answers that the question was taught; empty where it was taught none.
    """
    with store.snapshot():
        material = read_material(store, shown, request.where, request.ids)
        fields = store.documents.fields()
    if not material.documents:
        raise nothing_matches(store, request.where)
    by_lessons = request.k is None and learned and len({words[0] for words in material.answers}) > 1
    if by_lessons:
        made = sorted_by_lessons(material, shown, request, learned)
    else:
        made = _computed(store, material, shown, request)
    counted, k = material.once(made.labels.tolist()), len(made.clusters)
    labels, documents = made.labels[counted].tolist(), [material.documents[row] for row in counted]
    spreads = {name: spread(field_values(documents, name, fields), labels, k) for name in request.by}
    months = {}
    if request.over:
        months = growth(field_values(documents, request.over, fields), labels, k)
    clusters = [
        replace(cluster, spreads={name: by_cluster[cluster.number] for name, by_cluster in spreads.items()})
        for cluster in made.clusters
    ]
    return replace(made, clusters=clusters, months=months)


def _computed(store: Store, material: Material, shown: Source, request: ClusterRequest) -> Clustering:
    """Return rows in clusters by k-means; cosines and centroids are those of the view."""
    vectors = clustered_by(store, shown, material)
    choice = choose_k(vectors) if request.k is None else None
    partition = spherical_kmeans(vectors, (request.k if choice is None else choice.k) or 1)
    if vectors is not material.vectors:
        partition = replace(grouped(material.vectors, partition.labels, partition.k), stability=partition.stability)
    rows = zip(material.documents, partition.labels.tolist(), strict=True)
    return Clustering(
        request=request,
        view=shown.view_id,
        material=material,
        clusters=described(material, partition, request.instruction),
        places={document.id: (number,) for document, number in rows},
        placing=centroids_of(partition),
        choice=choice,
        stability=partition.stability,
    )


def still_holds(store: Store, shown: Source, found: Clustering) -> bool:
    """Return whether the documents a clustering is of are still all there are to cluster, none of them changed.

    Of answers in words, it is of the texts that are read, and holds while no answer is another.
    """
    where, ids = found.request.where, found.request.ids
    if not shown.in_words:
        return selected_documents(store, where, ids) == list(found.material.documents)
    with store.snapshot():
        now = read_material(store, shown, where, ids)
    return (now.documents, now.answers) == (found.material.documents, found.material.answers)
