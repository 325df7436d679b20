"""Teach a view by examples: learn a head on the vectors that an index has, and put it in the place of the one before.

The caller holds the writer's lock.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import InputError, UsageError
from retriever.core.types import Embeddings, Ids
from retriever.index.indexing import Indexer, OnIndexing
from retriever.index.readers import Readers
from retriever.index.search.centering import sample
from retriever.index.teaching.examples import FoundExamples
from retriever.index.teaching.head import Head
from retriever.index.teaching.learning import Lesson, learn
from retriever.index.teaching.scoring import HeldOut, held_out_score
from retriever.index.teaching.taught import TaughtViews, taught_key
from retriever.store.database import Store
from retriever.store.heads import StoredHead
from retriever.store.views import View

MEAN_OF = 2000
"""Most vectors whose mean stands for that of a view."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A head that is learned and not stored yet.

    Attributes:
        source: the view whose vectors it takes.
        plain: the base view, whose vectors it takes besides.
        head: the head.
        document: JSON with its examples and scores.
    """

    source: View
    plain: View
    head: Head
    document: Mapping[str, Any]


def question_of(readers: Readers, instruction: str) -> str:
    """Return a question as its view has it.

    Raises:
        UsageError: it is none: empty, or what a single reader is asked by default.
    """
    asked = readers.view_key(instruction).instruction
    if not asked:
        raise UsageError("There is no question to teach.", hint="Name it with --instruction.")
    return asked


def learn_question(
    store: Store, readers: Readers, asked: str, found: FoundExamples, run_id: int, progress: OnIndexing | None
) -> Learned:
    """Learn a question from examples; those that its view lacks are read first, and so are the answers' names.

    Args:
        store: the index's database.
        readers: the encoders of its views.
        asked: the question, as `question_of` gives it.
        found: the examples.
        run_id: of the run.
        progress: called with the growing report while examples are read.

    Raises:
        InputError: the view was dropped meanwhile.
    """
    source, plain = _with_examples(store, readers, asked, found, run_id, progress)
    lesson = _lesson(store, readers, source, plain, found)
    head = learn(lesson)
    return Learned(source, plain, head, _document(head, found, held_out_score(lesson)))


def store_learned(store: Store, taught: TaughtViews, learned: Learned) -> None:
    """Put a taught view in the place of the one before, whole, in the caller's transaction."""
    key = taught_key(learned.source.key, learned.plain.key, learned.head)
    drop_taught(store, learned.source)
    view, source = store.views.ensure(key), learned.source.view_id
    store.heads.put(view.view_id, source, learned.plain.view_id, learned.head.to_bytes(), learned.document)
    taught.derive_all(learned.source)


def drop_taught(store: Store, source: View) -> None:
    """Remove the taught view of a view, if any, in the caller's transaction."""
    for view_id, made_of in store.heads.sources().items():
        if made_of == source.view_id:
            store.views.drop(view_id)


def stored_examples(stored: StoredHead) -> dict[int, str]:
    """Return the examples that a head was learned from: answers by content id, also of texts that are gone."""
    return {int(one["content"]): str(one["answer"]) for one in stored.document["examples"]}


def _with_examples(
    store: Store, readers: Readers, asked: str, found: FoundExamples, run_id: int, progress: OnIndexing | None
) -> tuple[View, View]:
    """Return the views of the question and the base view, which hold the examples."""
    ids = np.array(found.content_ids, dtype=np.int64)
    views = [store.views.find(readers.view_key(one)) for one in (asked, "")]
    if any(view is None or store.vectors.missing(view.view_id, ids) for view in views):
        Indexer(store, readers, [asked], progress=progress, lazy=True).fill(run_id, ids)
    source, plain = (store.views.find(readers.view_key(one)) for one in (asked, ""))
    if source is None or plain is None:
        raise InputError(f"The view of {asked!r} was dropped while it was taught.", hint="Teach it again.")
    return source, plain


def _lesson(store: Store, readers: Readers, source: View, plain: View, found: FoundExamples) -> Lesson:
    answers = sorted(set(found.answers))
    numbers = {answer: number for number, answer in enumerate(answers)}
    ids = np.array(found.content_ids, dtype=np.int64)
    return Lesson(
        answers=answers,
        labels=np.array([numbers[one] for one in found.answers], dtype=np.int64),
        vectors=_vectors(store, source, ids),
        plain=_vectors(store, plain, ids),
        names=readers.question.encode(answers, instruction=source.key.instruction),
        plain_names=readers.base.encode(answers),
        mean=_mean(store, source, ids),
        plain_mean=_mean(store, plain, ids),
    )


def _vectors(store: Store, view: View, ids: Ids) -> Embeddings:
    return store.vectors.get(view.view_id, ids).embeddings


def _mean(store: Store, view: View, ids: Ids) -> NDArray[np.float32]:
    """Return the mean (d,) of a view's vectors: of a sample, and of some ids that it holds."""
    held = store.vectors.content_ids(view.view_id, through=store.vectors.last_id(view.view_id))
    chosen = np.union1d(sample(held, MEAN_OF), ids)
    return np.asarray(_vectors(store, view, chosen).mean(axis=0))


def _document(head: Head, found: FoundExamples, score: HeldOut) -> dict[str, Any]:
    """Return what is stored of a head besides its numbers."""
    examples = [
        {"content": content_id, "answer": answer}
        for content_id, answer in zip(found.content_ids, found.answers, strict=True)
    ]
    return {
        "head": head.describe(),
        "examples": examples,
        "before": asdict(score.before),
        "after": asdict(score.after),
        "held_out": score.examples,
    }
