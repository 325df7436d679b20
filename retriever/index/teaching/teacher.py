"""Teach a question by examples: learn a head on the vectors that an index has.

Where it is asked for, the base encoder is fine-tuned first; if that helps, it reads every text of the question's view
anew, and the head takes those vectors.
"""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import EncoderError, InputError, UsageError
from retriever.core.protocols import Tuning
from retriever.core.results import IndexingReport
from retriever.core.types import Embeddings, Ids
from retriever.index.indexing import Indexer
from retriever.index.search.centering import sample
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import READ_AT_ONCE, encode_texts, fill
from retriever.index.sources.making import Making, OnIndexing, add_source
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught, Tuned
from retriever.index.teaching.examples import FoundExamples
from retriever.index.teaching.learning import Lesson, learn
from retriever.index.teaching.scoring import HeldOut, held_out_score
from retriever.index.teaching.tuning import OnSteps, try_tuning

MEAN_OF = 2000
"""Most vectors whose mean stands for that of a view."""


def question_of(sources: Sources, instruction: str) -> Source:
    """Return the source of a question as it is read, which can be taught.

    Raises:
        UsageError: it is none: empty, or what a single encoder is asked by default.
    """
    source = sources.read(instruction)
    if not source.key.instruction:
        raise UsageError("There is no question to teach.", hint="Name it with --instruction.")
    return source


def learn_question(
    sources: Sources, question: Source, found: FoundExamples, making: Making, *, tune: bool = False
) -> Taught:
    """Learn a question from examples; those that its view lacks are read first, and so are the answers' names.

    Args:
        sources: of the index.
        question: as `question_of` gives it.
        found: the examples.
        making: its progress is told of the examples that are read, of the steps of fine-tuning, and of the texts read.
        tune: whether to fine-tune the base encoder for the question, and to keep that where it helps.

    Returns:
        What was learned, not stored yet.

    Raises:
        InputError: the view was dropped meanwhile.
        EncoderError: the base encoder cannot be fine-tuned, or there is none besides the instruction encoder.
    """
    encoders, store, base = sources.encoders, making.store, sources.base
    if tune and not encoders.separate:
        raise EncoderError(
            "This index has no plain reader of its own to fine-tune.",
            hint="`retriever reembed --plain NAME` gives it one.",
        )
    _read_examples(sources, question, found, making)
    lesson = _lesson(sources, question, base, found)
    if not tune:
        head = learn(lesson)
        return Taught(question, base, head, _document(found, held_out_score(lesson)))
    texts = store.documents.texts(np.array(found.content_ids, dtype=np.int64))
    on_steps = _on_steps(sources, question, making.progress)
    tried = try_tuning(encoders.base, [texts[content_id] for content_id in found.content_ids], lesson, on_steps)
    beside = base
    if tried.tuning is not None:
        beside = _read_anew(sources, question, tried.tuning, making)
        lesson = replace(lesson, **_part_beside(sources, beside, found))
    head = learn(lesson, None if tried.tuning is None else tried.settings)
    score = held_out_score(lesson) if tried.tuning is None else tried.score
    return Taught(question, beside, head, {**_document(found, score), "tuned": tried.tuning is not None})


def _read_examples(sources: Sources, question: Source, examples: FoundExamples, making: Making) -> None:
    """Read the examples that the views of the question and of the base lack."""
    ids, store = np.array(examples.content_ids, dtype=np.int64), making.store
    views = [sources.view(source) for source in (question, sources.base)]
    if any(view is None or store.vectors.missing(view.view_id, ids) for view in views):
        Indexer(store, sources, [question], progress=making.progress, lazy=True).fill(making.run_id, ids)
    if sources.view(question) is None or sources.view(sources.base) is None:
        instruction = question.key.instruction
        raise InputError(f"The view of {instruction!r} was dropped while it was taught.", hint="Teach it again.")


def _on_steps(sources: Sources, question: Source, progress: OnIndexing | None) -> OnSteps | None:
    """Return what tells progress how many steps of fine-tuning are done, by a report that grows."""
    view = sources.view(question)
    if progress is None or view is None:
        return None
    report = IndexingReport(views=[view.view_id], instructions=[question.key.instruction], tuning=True)

    def notify(done: int, steps: int) -> None:
        report.in_hand, report.expected = done, steps
        progress(report)

    return notify


def _read_anew(sources: Sources, question: Source, tuning: Tuning, making: Making) -> Source:
    """Let the tuned encoder read every text of the question's view that it has not read, and return its source.

    What was read stays where this is interrupted, and the same examples go on from there.
    """
    store, tuned = making.store, Tuned(question, sources.base, tuning, sources.encoders)
    with store.transaction():
        view = add_source(store, tuned)
    lacking = store.vectors.missing(view.view_id, sources.held(question))
    report = IndexingReport(views=[view.view_id], instructions=[question.key.instruction], expected=len(lacking))
    for start in range(0, len(lacking), READ_AT_ONCE):
        if making.progress is not None:
            report.in_hand = start
            making.progress(report)
        fill(store, [tuned], sources, lacking[start : start + READ_AT_ONCE])
    return tuned


def _lesson(sources: Sources, question: Source, base: Source, examples: FoundExamples) -> Lesson:
    answers = _answers(examples)
    numbers = {answer: number for number, answer in enumerate(answers)}
    ids = np.array(examples.content_ids, dtype=np.int64)
    return Lesson(
        answers=answers,
        labels=np.array([numbers[answer] for answer in examples.answers], dtype=np.int64),
        vectors=_vectors(sources, question, ids),
        names=encode_texts([question], answers)[0],
        mean=_mean(sources, question, ids),
        **_part_beside(sources, base, examples),
    )


def _part_beside(sources: Sources, beside: Source, examples: FoundExamples) -> dict[str, Any]:
    """Return what a lesson has of the vectors beside the question's."""
    ids = np.array(examples.content_ids, dtype=np.int64)
    names = encode_texts([beside], _answers(examples))[0]
    return {"plain": _vectors(sources, beside, ids), "plain_names": names, "plain_mean": _mean(sources, beside, ids)}


def _answers(examples: FoundExamples) -> list[str]:
    return sorted(set(examples.answers))


def _vectors(sources: Sources, source: Source, ids: Ids) -> Embeddings:
    return sources.stored(source, ids).embeddings


def _mean(sources: Sources, source: Source, ids: Ids) -> NDArray[np.float32]:
    """Return the mean (d,) of a view's vectors: of a sample, and of some ids that it holds."""
    chosen = np.union1d(sample(sources.held(source), MEAN_OF), ids)
    return np.asarray(_vectors(sources, source, chosen).mean(axis=0))


def _document(resolved: FoundExamples, score: HeldOut) -> dict[str, Any]:
    """Return what is stored of a head besides its numbers."""
    examples = [
        {"content": content_id, "answer": answer}
        for content_id, answer in zip(resolved.content_ids, resolved.answers, strict=True)
    ]
    return {
        "examples": examples,
        "before": asdict(score.before),
        "after": asdict(score.after),
        "held_out": score.examples,
    }
