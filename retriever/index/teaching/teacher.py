"""Teach a view by examples: learn a head on the vectors that an index has, and put it in the place of the one before.

Where it is asked for, the plain reader is fine-tuned first; if that helps, it reads every text of the view anew, into a
tuned view, and the head takes those vectors. The caller holds the writer's lock.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.encoder import Encoder, Tuning
from retriever.core.errors import EncoderError, InputError, UsageError
from retriever.core.results import IndexingReport
from retriever.core.types import Embeddings, Ids
from retriever.index.indexing import Indexer, OnIndexing
from retriever.index.readers import Readers
from retriever.index.search.centering import sample
from retriever.index.teaching.examples import FoundExamples
from retriever.index.teaching.head import Head
from retriever.index.teaching.learning import Lesson, learn
from retriever.index.teaching.scoring import HeldOut, held_out_score
from retriever.index.teaching.taught import (
    READ_AT_ONCE,
    TaughtViews,
    described_tuning,
    read_into,
    taught_key,
    tuned_key,
)
from retriever.index.teaching.tuning import OnSteps, try_tuning
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
        plain: the base view, whose vectors it takes besides, or a tuned one.
        head: the head.
        document: JSON with its examples and scores.
        tuning: what tuned the plain reader; None where the base view serves.
    """

    source: View
    plain: View
    head: Head
    document: Mapping[str, Any]
    tuning: Tuning | None = None


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
    store: Store,
    readers: Readers,
    asked: str,
    found: FoundExamples,
    run_id: int,
    progress: OnIndexing | None,
    *,
    tune: bool = False,
) -> Learned:
    """Learn a question from examples; those that its view lacks are read first, and so are the answers' names.

    Args:
        store: the index's database.
        readers: the encoders of its views.
        asked: the question, as `question_of` gives it.
        found: the examples.
        run_id: of the run.
        progress: called with the growing report while examples are read, the plain reader is fine-tuned, and it reads.
        tune: whether to fine-tune the plain reader for the question, and to keep that where it helps.

    Raises:
        InputError: the view was dropped meanwhile.
        EncoderError: the plain reader cannot be fine-tuned, or there is none besides the question reader.
    """
    if tune and not readers.two:
        raise EncoderError(
            "This index has no plain reader of its own to fine-tune.",
            hint="`retriever reembed --plain NAME` gives it one.",
        )
    source, plain = _with_examples(store, readers, asked, found, run_id, progress)
    lesson = _lesson(store, readers, source, plain, found)
    if not tune:
        head = learn(lesson)
        return Learned(source, plain, head, _document(head, found, held_out_score(lesson)))
    texts = store.documents.texts(np.array(found.content_ids, dtype=np.int64))
    tried = try_tuning(readers.base, [texts[one] for one in found.content_ids], lesson, _on_steps(source, progress))
    if tried.tuning is not None:
        encoder = readers.tuned_base(tried.tuning)
        plain = _read_anew(store, readers, tried.tuning, source, progress)
        lesson = replace(lesson, **_plain_part(store, encoder, plain, found))
    head = learn(lesson, None if tried.tuning is None else tried.settings)
    score = held_out_score(lesson) if tried.tuning is None else tried.score
    document = {**_document(head, found, score), "tuned": tried.tuning is not None}
    if tried.tuning is not None:
        document["tuning"] = described_tuning(tried.tuning)
    return Learned(source, plain, head, document, tried.tuning)


def store_learned(
    store: Store, readers: Readers, taught: TaughtViews, learned: Learned, but: Collection[int] = ()
) -> None:
    """Put a taught view in the place of the one before, whole, in the caller's transaction.

    Args:
        store: the index's database.
        readers: those that ``learned`` was learned with; what a search has read since is read by the tuned one here.
        taught: the index's taught views.
        learned: what is stored.
        but: ids of tuned views that are to stay, for heads that are not stored yet.
    """
    key = taught_key(learned.source.key, learned.plain.key, learned.head)
    drop_taught(store, learned.source, but={learned.plain.view_id, *but})
    view, source, arrays = store.views.ensure(key), learned.source.view_id, learned.head.to_bytes()
    if learned.tuning is not None:
        arrays += learned.tuning.arrays
    store.heads.put(view.view_id, source, learned.plain.view_id, arrays, learned.document)
    taught.read_tuned(learned.source, _held(store, learned.source), readers)
    taught.derive_all(learned.source)


def drop_taught(store: Store, source: View, but: Collection[int] = ()) -> None:
    """Remove the taught view of a view, if any, and what is tuned for its question, in the caller's transaction.

    Args:
        store: the index's database.
        source: the view.
        but: ids of tuned views that are to stay.
    """
    sources = store.heads.sources()
    if but:  # a view that goes takes along what its head names
        store.heads.remove([view_id for view_id, of in sources.items() if of == source.view_id])
    for view in store.views.all():
        unused = view.tuned and view.view_id not in sources  # left by a teaching that did not end
        if (unused or sources.get(view.view_id) == source.view_id) and view.view_id not in but:
            store.views.drop(view.view_id)


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


def _on_steps(source: View, progress: OnIndexing | None) -> OnSteps | None:
    """Return what tells progress how many steps of fine-tuning are done, by a report that grows."""
    if progress is None:
        return None
    report = IndexingReport(views=[source.view_id], instructions=[source.key.instruction], tuning=True)

    def told(done: int, steps: int) -> None:
        report.in_hand, report.expected = done, steps
        progress(report)

    return told


def _read_anew(store: Store, readers: Readers, tuning: Tuning, source: View, progress: OnIndexing | None) -> View:
    """Let a tuned reader read every text of a view that its tuned view lacks, and return that.

    What was read stays where this is interrupted, and the same examples go on from there.
    """
    view, encoder = store.views.ensure(tuned_key(source.key, readers, tuning)), readers.tuned_base(tuning)
    lacking = store.vectors.missing(view.view_id, _held(store, source))
    report = IndexingReport(views=[view.view_id], instructions=[source.key.instruction], expected=len(lacking))
    for start in range(0, len(lacking), READ_AT_ONCE):
        if progress is not None:
            report.in_hand = start
            progress(report)
        read_into(store, view, encoder, lacking[start : start + READ_AT_ONCE])
    return view


def _lesson(store: Store, readers: Readers, source: View, plain: View, found: FoundExamples) -> Lesson:
    answers = _answers(found)
    numbers = {answer: number for number, answer in enumerate(answers)}
    ids = np.array(found.content_ids, dtype=np.int64)
    return Lesson(
        answers=answers,
        labels=np.array([numbers[one] for one in found.answers], dtype=np.int64),
        vectors=_vectors(store, source, ids),
        names=readers.question.encode(answers, instruction=source.key.instruction),
        mean=_mean(store, source, ids),
        **_plain_part(store, readers.base, plain, found),
    )


def _plain_part(store: Store, encoder: Encoder, plain: View, found: FoundExamples) -> dict[str, Any]:
    """Return what a lesson has of a plain reader and its view."""
    ids = np.array(found.content_ids, dtype=np.int64)
    names = encoder.encode(_answers(found))
    return {"plain": _vectors(store, plain, ids), "plain_names": names, "plain_mean": _mean(store, plain, ids)}


def _answers(found: FoundExamples) -> list[str]:
    return sorted(set(found.answers))


def _held(store: Store, view: View) -> Ids:
    """Return the ids of the texts that a view holds."""
    return store.vectors.content_ids(view.view_id, through=store.vectors.last_id(view.view_id))


def _vectors(store: Store, view: View, ids: Ids) -> Embeddings:
    return store.vectors.get(view.view_id, ids).embeddings


def _mean(store: Store, view: View, ids: Ids) -> NDArray[np.float32]:
    """Return the mean (d,) of a view's vectors: of a sample, and of some ids that it holds."""
    chosen = np.union1d(sample(_held(store, view), MEAN_OF), ids)
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
