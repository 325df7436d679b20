"""Put documents to categories that somebody named, by what the encoder answers about each under an instruction.

The name of a category is read three times over, since a word alone is shorter than what the model reads; `placing` has
the rules. Where examples taught the question, text and name are what its head makes of both encoders' vectors, and the
rules are the same; but where all categories are answers that were taught, no document belongs to none of them.

A category that no example has is not learned where others were: no document is put to it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from retriever.clusters.categories import Category
from retriever.clusters.clustering import Clustering, ClusterRequest
from retriever.clusters.describing import described_anew
from retriever.clusters.given import with_given
from retriever.clusters.material import Material
from retriever.clusters.placing import FLOOR, NO_FLOOR, CategoryNames, Placing
from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Document, Embeddings
from retriever.index.opened import Opened
from retriever.index.sources.filling import encode_texts, of_one_encoder
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.index.teaching.labels import NONE_OF_THESE

EXAMPLES = 1.0
"""Weight of the mean of a category's examples, less that of all documents, beside its name."""


def by_names(opened: Opened, shown: Source, material: Material, request: ClusterRequest) -> Clustering:
    """Put the documents of a complete view to categories.

    Args:
        opened: the index.
        shown: of the question.
        material: the documents.
        request: with the categories.

    Raises:
        UsageError: examples taught the question, and fewer than two of the categories.
    """
    store, sources = opened.store, opened.sources
    taught = shown.lessons().answers if isinstance(shown, Taught) else ()
    given = with_given(store, request.instruction or "", request.into, taught)
    categories, not_learned = _learned(shown, given)
    titles, floor = [category.name for category in categories], FLOOR
    (names,) = encode_texts([shown], [_read_of(category) for category in categories])
    apart = None
    if isinstance(shown, Taught):
        if (learned := shown.class_prototypes(titles, names)) is not None:  # all of these were learned
            names, floor = learned, NO_FLOOR
        apart = shown.class_prototypes([*titles, NONE_OF_THESE], np.vstack([names, names.mean(axis=0)]))
    placing = CategoryNames(
        _with_examples(names, categories, material),
        material.vectors.mean(axis=0),
        request.several,
        floor,
        not_learned=range(len(categories), len(request.into)),
        outside=None if apart is None or NONE_OF_THESE in titles else apart[-1],
    )
    if not of_one_encoder(sources.base, shown.root):
        (known,) = encode_texts([sources.base], titles)
        placing = replace(placing, base=known, base_fingerprint=sources.base.key.fingerprint)
    fit = placing.fit(material.vectors, base_vectors(opened, placing, material.documents))
    ids = [document.id for document in material.documents]
    places = dict(zip(ids, placing.chosen(fit), strict=True))
    described = described_anew(material, places, range(len(request.into)), request.instruction)
    return Clustering(
        request=request,
        view=shown.view_id,
        material=material,
        clusters=[
            replace(described[number], label=category.name, description=category.description)
            for number, category in enumerate([*categories, *not_learned])
        ],
        places=places,
        placing=placing,
        made="names",
        margins=dict(zip(ids, [round(float(margin), 4) for margin in fit.margins], strict=True)),
    )


def _learned(shown: Source, categories: Sequence[Category]) -> tuple[Sequence[Category], Sequence[Category]]:
    """Return the categories that documents can go to, and those without an example under a question that was taught."""
    if not isinstance(shown, Taught):
        return categories, []
    lessons = shown.lessons()
    taught = {answer.casefold() for answer in lessons.answers}
    learned = [category for category in categories if category.examples or category.name.casefold() in taught]
    if len(learned) < 2:
        raise UsageError(
            f"The question was taught, but only {len(learned)} of these categories has an example.",
            hint=f"Taught are {', '.join(lessons.answers)}. Name those, or give the categories examples in a file, or "
            "`retriever teach --forget` the question.",
        )
    return learned, [category for category in categories if category not in learned]


def base_vectors(opened: Opened, placing: Placing, documents: Sequence[Document]) -> Embeddings | None:
    """Return what the base encoder makes of documents (n, e), read now where the base view lacks them.

    None where documents are not put by categories' names that this encoder read.
    """
    sources, store = opened.sources, opened.store
    if not isinstance(placing, CategoryNames) or sources.base.key.fingerprint != placing.base_fingerprint:
        return None
    contents = store.documents.known([document.text for document in documents])  # by text
    held = sources.stored(sources.base, np.array(list(contents.values()), dtype=np.int64))
    vectors = dict(zip(held.content_ids.tolist(), held.embeddings, strict=True))
    lacking = [text for text, content_id in contents.items() if content_id not in vectors]
    if lacking:
        read = encode_texts([sources.base], lacking)[0]
        vectors |= zip([contents[text] for text in lacking], read, strict=True)
    return np.stack([vectors[contents[document.text]] for document in documents])


def _read_of(category: Category) -> str:
    """Return the text that is read of a category."""
    said = ", ".join([category.name] * 3)
    return f"{said}: {category.description}" if category.description else said


def _with_examples(names: Embeddings, categories: Sequence[Category], material: Material) -> Embeddings:
    """Return the vectors of categories (k, dim): those of their names, moved by their examples."""
    rows = {document.id: row for row, document in enumerate(material.documents)}
    mean, moved = material.vectors.mean(axis=0), names.copy()
    for number, category in enumerate(categories):
        known = [rows[id] for id in category.examples if id in rows]
        if known:
            moved[number] += EXAMPLES * (material.vectors[known].mean(axis=0) - mean)
    return normalise(moved)
