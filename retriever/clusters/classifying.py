"""Put documents to categories that somebody named, by what the model answers about each under an instruction.

The name of a category is read three times over, since a word alone is shorter than what the model reads; `placing` has
the rules. Where examples taught the question, text and name are what its head makes of both encoders' vectors, and the
rules are the same; but where all categories are answers that were taught, no document belongs to none of them. Where a
language model serves the question, it is asked for the category itself: a closed question (`categories`).

A category that no example has is not learned where others were: no document is put to it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever.clusters.arithmetic.consensus import directions
from retriever.clusters.categories import Category, options_of
from retriever.clusters.clustering import Clustering, ClusterRequest
from retriever.clusters.describing import described_anew
from retriever.clusters.given import with_given
from retriever.clusters.material import Material, read_material
from retriever.clusters.placing import FLOOR, NO_FLOOR, CategoryNames, Options, Places, Placing
from retriever.core.errors import InputError, UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Document, Embeddings
from retriever.index.opened import Opened
from retriever.index.selection import nothing_matches
from retriever.index.sources.filling import encode_texts, of_one_encoder
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.store.filters import Filter

EXAMPLES = 1.0
"""Weight of the mean of a category's examples, less that of all documents, beside its name."""


@dataclass(frozen=True, slots=True)
class ClassifyRequest:
    """Settings of a classification.

    Attributes:
        instruction: what the categories are answers to; not empty.
        categories: two or more.
        several: whether a document may belong to several.
        where: only documents that this filter accepts; None for all.
    """

    instruction: str
    categories: Sequence[Category]
    several: bool = False
    where: Filter | None = None


def classify(opened: Opened, shown: Source, request: ClassifyRequest) -> Clustering:
    """Put the documents of a complete view to categories.

    Args:
        opened: the index.
        shown: of the question.
        request: what is asked.

    Raises:
        InputError: no document matches the filter.
        UsageError: examples taught the question, and fewer than two of the categories.
    """
    store, sources = opened.store, opened.sources
    taught = shown.lessons().answers if isinstance(shown, Taught) else ()
    given = with_given(store, request.instruction, request.categories, taught)
    categories, not_learned = _learned(shown, given)
    with store.snapshot():
        material = read_material(store, shown, request.where)
    if not material.documents:
        raise nothing_matches(store, request.where)
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
        not_learned=range(len(categories), len(request.categories)),
        outside=None if apart is None or NONE_OF_THESE in titles else apart[-1],
    )
    if not of_one_encoder(sources.base, shown.root):
        (known,) = encode_texts([sources.base], titles)
        placing = replace(placing, base=known, base_fingerprint=sources.base.key.fingerprint)
    fit = placing.fit(material.vectors, base_vectors(opened, placing, material.documents))
    ids = [document.id for document in material.documents]
    places = dict(zip(ids, placing.chosen(fit), strict=True))
    margins = dict(zip(ids, [round(float(margin), 4) for margin in fit.margins], strict=True))
    request = replace(request, categories=[*categories, *not_learned])
    return replace(_categorised(material, shown.view_id, request, placing, places), margins=margins)


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


def sorted_by_answers(opened: Opened, shown: Source, request: ClassifyRequest) -> Clustering:
    """Put the documents that a language model read under a closed question to the options it chose.

    The options that no category is are categories of their own. Examples stay where they belong, those among them that
    a person or a program answered with an option's name.

    Args:
        opened: the index.
        shown: the view of the closed question, of answers.
        request: what is asked.

    Raises:
        InputError: no document matches the filter, or none was read.
    """
    with opened.store.snapshot():
        material = read_material(opened.store, shown, request.where)
    if not material.documents:
        raise InputError("The language model answered for none of the texts.", hint="Try again, or another --reader.")
    options = with_given(opened.store, request.instruction, options_of(request.categories))
    names = [option.name for option in options]
    (vectors,) = encode_texts([shown], names)
    placing = Options(shown.instruction, names, vectors)
    places = dict(zip([document.id for document in material.documents], placing.place(material, None), strict=True))
    for number, option in enumerate(options):
        places |= {id: (number,) for id in option.examples if id in places}
    return _categorised(material, shown.view_id, replace(request, categories=options), placing, places)


def sorted_by_lessons(material: Material, shown: Source, request: ClusterRequest, learned: Sequence[str]) -> Clustering:
    """Put rows to the answers that a question was taught: each to its likeliest, the first of its words.

    The answer of the texts that give none of the others comes last.

    Args:
        material: rows of the question's view.
        shown: the view.
        request: what is asked.
        learned: the answers.
    """
    counts = Counter(words[0] for words in material.answers)
    names = sorted(learned, key=lambda answer: (answer == NONE_OF_THESE, -counts[answer]))
    numbers = np.array([names.index(words[0]) for words in material.answers], dtype=np.int64)
    placing = Options(shown.instruction, names, directions(material.vectors, numbers, len(names)))
    places = {document.id: (number,) for document, number in zip(material.documents, numbers.tolist(), strict=True)}
    answers = ClassifyRequest(shown.instruction, [Category(name) for name in names])
    return replace(_categorised(material, shown.view_id, answers, placing, places), request=request)


def _categorised(
    material: Material, view: int, request: ClassifyRequest, placing: CategoryNames | Options, places: Places
) -> Clustering:
    """Return documents in the categories that they were put to, each described."""
    described = described_anew(material, places, range(len(request.categories)), request.instruction)
    return Clustering(
        request=ClusterRequest(request.instruction, where=request.where),
        view=view,
        material=material,
        clusters=[
            replace(described[number], label=category.name, description=category.description)
            for number, category in enumerate(request.categories)
        ],
        places=places,
        placing=placing,
    )


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
