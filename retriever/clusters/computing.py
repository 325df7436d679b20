"""Put the documents of a question into groups: by vectors, by answers in words, by lessons, or by given names."""

from dataclasses import replace

from retriever.clusters.arithmetic.choice import choose_k
from retriever.clusters.arithmetic.kmeans import check_count, grouped, spherical_kmeans
from retriever.clusters.beside import clustered_by
from retriever.clusters.by_answers import by_answers, by_lessons
from retriever.clusters.by_names import by_names
from retriever.clusters.clustering import Clustering, ClusterRequest
from retriever.clusters.describing import described
from retriever.clusters.fields import field_values, spreads
from retriever.clusters.material import Material, read_material
from retriever.clusters.placing import centroids_of
from retriever.core.errors import InputError
from retriever.index.opened import Opened
from retriever.index.selection import nothing_matches, selected_documents
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.store.database import Store
from retriever.store.filters import resolve_field


def check_fields(store: Store, request: ClusterRequest) -> None:
    """Refuse fields that no document has, before anything is read.

    Raises:
        FilterError: a field is not there, or its name belongs to several.
    """
    known = store.documents.fields()
    for name in request.by:
        resolve_field(name, known)


def check(store: Store, request: ClusterRequest) -> None:
    """Refuse what cannot be clustered, from the documents alone: before anything is embedded for it.

    Raises:
        InputError: no document matches the filter, or none of the ids is there.
        UsageError: more clusters are wanted than there are documents, or a field is not there.
        FilterError: the filter names an unknown field.
    """
    documents = selected_documents(store, request.where, request.ids)
    if not documents:
        raise nothing_matches(store, request.where)
    if request.k is not None:
        check_count(request.k, len(documents))
    for name in request.by:
        field_values(store, documents, name)


def cluster(opened: Opened, shown: Source, request: ClusterRequest) -> Clustering:
    """Group the documents of a complete view; errors as for `check`, and where none of them has an answer.

    Args:
        opened: the index.
        shown: the view.
        request: where it gives neither categories nor a number, and texts have several of the answers that examples
            taught, each of these is a group.
    """
    store = opened.store
    with store.snapshot():
        material = read_material(store, shown, request.where, request.ids)
    if not material.documents:
        if shown.in_words and selected_documents(store, request.where, request.ids):
            raise InputError("None of the texts has an answer.", hint="Try again, or another --reader.")
        raise nothing_matches(store, request.where)
    made = _made(opened, shown, material, request)
    counts = spreads(store, material, made.places, request.by, len(made.clusters))
    return replace(made, clusters=[replace(cluster, spreads=counts[cluster.number]) for cluster in made.clusters])


def _made(opened: Opened, shown: Source, material: Material, request: ClusterRequest) -> Clustering:
    """Return rows in groups, by who knows them best."""
    if shown.in_words:
        return by_answers(opened, shown, material, request)
    if request.into:
        return by_names(opened, shown, material, request)
    learned = list(shown.lessons().answers) if isinstance(shown, Taught) else []
    if request.k is None and learned and len({words[0] for words in material.answers}) > 1:
        return by_lessons(material, shown, request, learned)
    return _by_vectors(opened.store, material, shown, request)


def _by_vectors(store: Store, material: Material, shown: Source, request: ClusterRequest) -> Clustering:
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
