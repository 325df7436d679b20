"""Teach a question by examples, or anew by those it was taught by: learn a head on the vectors that an index has.

Where it is asked for, the base encoder is fine-tuned first; if that helps, it reads every text of the question's view
anew, and the head takes those vectors.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import EncoderError, InputError, UsageError
from retriever.core.protocols import Tuning
from retriever.core.results import IndexingReport, OnIndexing
from retriever.core.types import Ids
from retriever.index.forecast import counting
from retriever.index.generations import build_outgrown
from retriever.index.indexing import Indexer
from retriever.index.opened import Opened
from retriever.index.search.centering import sample
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import READ_AT_ONCE, catch_up, derive, encode_texts, fill
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught, Tuned
from retriever.index.teaching.answering import keep_examples
from retriever.index.teaching.examples import (
    FoundExamples,
    GivenExamples,
    found_examples,
    given_examples,
    kept_examples,
    require_enough,
    with_labels,
)
from retriever.index.teaching.labels import kept_labels
from retriever.index.teaching.learning import Lesson, learn
from retriever.index.teaching.scoring import HeldOut, held_out_score
from retriever.index.teaching.tuning import try_tuning
from retriever.index.view_upkeep import clear_dropped
from retriever.store.database import Store
from retriever.store.views import View

MEAN_OF = 2000
"""Most vectors whose mean stands for that of a view."""


def question_of(sources: Sources, instruction: str) -> Source:
    """Return the source of a question as it is read, which can be taught.

    Raises:
        UsageError: it is none: empty, or what a single encoder is asked by default.
    """
    source = sources.read(instruction)
    if not source.instruction:
        raise UsageError("There is no question to teach.", hint="Name it with --instruction.")
    return source


@dataclass(frozen=True, slots=True)
class TeachingRun:
    """A recorded run that teaches, with the writer's lock held.

    Attributes:
        sources: of the index.
        run_id: of the run.
        progress: called with the growing report while texts are read.
    """

    sources: Sources
    run_id: int
    progress: OnIndexing | None = None

    @property
    def store(self) -> Store:
        """The index's database."""
        return self.sources.context.store


def teach(
    opened: Opened, instruction: str, examples: GivenExamples | None, *, tune: bool, progress: OnIndexing | None
) -> None:
    """Teach a question by examples, or by those that the index keeps for it, as `Teaching.teach` does."""
    store, sources, given = opened.store, opened.sources, dict[int, str]()
    question = question_of(sources, instruction)
    kept = kept_labels(store, question.instruction)
    if examples is None:
        resolved = kept_examples(store, kept)
    else:
        resolved = found_examples(store, given_examples(examples))
        resolved = replace(resolved, answers=[kept.spelled(answer) for answer in resolved.answers])
        given = dict(zip(resolved.content_ids.tolist(), resolved.answers, strict=True))
    with opened.writing("teach") as run_id:
        run = TeachingRun(sources, run_id, progress)
        learned = learn_question(run, question, with_labels(resolved, kept), tune=tune)
        if given:
            keep_examples(opened, question.instruction, given)
        view = install(sources, learned)
        build_outgrown(store, [view], opened.path, opened.device)
        clear_dropped(store, opened.path)


def learn_question(run: TeachingRun, question: Source, examples: FoundExamples, *, tune: bool = False) -> Taught:
    """Learn a question from examples; those that its view lacks are read first, and so are the answers' names.

    With ``tune`` the base encoder is fine-tuned for the question, which is kept where it helps.

    Returns:
        What was learned, not stored yet.

    Raises:
        EncoderError: the base encoder cannot be fine-tuned, or there is none besides the instruction encoder.
    """
    sources, store = run.sources, run.store
    encoders, base = sources.encoders, sources.base
    if tune and not encoders.separate:
        raise EncoderError(
            "This index has no base encoder of its own to fine-tune.",
            hint="`retriever reembed --base NAME` gives it one.",
        )
    Indexer(store, sources, [question], progress=run.progress, lazy=True).fill(run.run_id, examples.content_ids)
    lesson = _lesson(sources, question, base, examples)
    if not tune:
        head = learn(lesson)
        return Taught.learned(question, base, head, _document(examples, held_out_score(lesson)))
    texts = store.documents.texts(examples.content_ids)
    view = store.views.ensure(question.key, lazy=True)
    report = IndexingReport(views=[view.view_id], instructions=[question.instruction], tuning=True)
    on_steps = counting(report, run.progress)
    tried = try_tuning(
        encoders.base, [texts[id] for id in examples.content_ids.tolist()], _said_of(examples), lesson, on_steps
    )
    beside = base
    if tried.tuning is not None:
        beside = _read_anew(run, question, tried.tuning)
        lesson = replace(lesson, **_part_beside(sources, beside, examples))
    head = learn(lesson, None if tried.tuning is None else tried.settings)
    score = held_out_score(lesson) if tried.tuning is None else tried.score
    return Taught.learned(question, beside, head, {**_document(examples, score), "tuned": tried.tuning is not None})


def install(sources: Sources, taught: Taught) -> View:
    """Store what a question was taught, in the place of what it was taught before; it serves from now on."""
    for need in taught.needs:
        if need.hidden:
            catch_up(sources, need)  # with what searches have read since; not within the transaction
    with sources.context.store.transaction():
        before = [
            source
            for source in sources.candidates(taught.instruction)
            if isinstance(source, Taught) and source != taught
        ]
        view = sources.store(taught)
        derive(sources, [taught], taught.contents(sources.held))
        sources.choose(taught)
        sources.context.store.views.drop(*(source.view_id for source in before))
    return view


def taught_again(before: Taught, run: TeachingRun) -> Taught:
    """Learn a question from the same examples under other encoders, or return what was learned so already.

    Raises:
        InputError: too few examples are left.
        UsageError: those encoders read the question as the base view.
    """
    sources = run.sources
    question = question_of(sources, before.instruction)
    known = [source for source in sources.candidates(question.instruction) if isinstance(source, Taught)]
    for taught in known:
        if taught.examples == before.examples:
            return taught
    try:
        examples = _still_there(run.store, before)
    except InputError:
        if known:  # from when they were the index's: what was learned then stays
            return known[0]
        raise
    teach = partial(learn_question, run, question, examples)
    try:
        return teach(tune=bool(before.document.get("tuned")) and sources.encoders.separate)
    except EncoderError:  # this base encoder cannot be fine-tuned
        return teach()


def _still_there(store: Store, before: Taught) -> FoundExamples:
    """Return the examples whose documents are still there.

    Raises:
        InputError: these are too few to learn from.
    """
    answers = before.examples
    live = np.intersect1d(list(answers), store.documents.live_contents())
    known = before.document
    examples = FoundExamples(
        live,
        [answers[content_id] for content_id in live.tolist()],
        known.get("descriptions", {}),
        known.get("unlearned", {}),
    )
    try:
        require_enough(examples.answers)
    except InputError as error:
        gone = len(answers) - len(live)
        raise InputError(f"{gone} of its {len(answers)} examples were deleted. {error.message}") from error
    return examples


def _read_anew(run: TeachingRun, question: Source, tuning: Tuning) -> Source:
    """Let the tuned encoder read every text of the question's view that it has not read, and return its source.

    What was read stays where this is interrupted, and the same examples go on from there.
    """
    store, sources = run.store, run.sources
    tuned = Tuned.by(question, sources.base, tuning)
    with store.transaction():
        view = sources.store(tuned)
    lacking = store.vectors.missing(view.view_id, sources.held(question))
    report = IndexingReport(views=[view.view_id], instructions=[question.instruction])
    notify = counting(report, run.progress)
    for start in range(0, len(lacking), READ_AT_ONCE):
        if notify is not None:
            notify(start, len(lacking))
        fill(sources, [tuned], lacking[start : start + READ_AT_ONCE])
    return tuned


def _lesson(sources: Sources, question: Source, base: Source, examples: FoundExamples) -> Lesson:
    answers = _answers(examples)
    numbers = {answer: number for number, answer in enumerate(answers)}
    return Lesson(
        answers=answers,
        labels=np.array([numbers[answer] for answer in examples.answers], dtype=np.int64),
        vectors=sources.stored(question, examples.content_ids).embeddings,
        names=encode_texts([question], _said_of(examples))[0],
        mean=_mean(sources, question, examples.content_ids),
        **_part_beside(sources, base, examples),
    )


def _part_beside(sources: Sources, beside: Source, examples: FoundExamples) -> dict[str, Any]:
    """Return what a lesson has of the vectors beside the question's."""
    return {
        "plain": sources.stored(beside, examples.content_ids).embeddings,
        "plain_names": encode_texts([beside], _said_of(examples))[0],
        "plain_mean": _mean(sources, beside, examples.content_ids),
    }


def _answers(examples: FoundExamples) -> list[str]:
    return sorted(set(examples.answers))


def _said_of(examples: FoundExamples) -> list[str]:
    """Return the text that is read of every answer: its name, and its description where it has one."""
    texts = examples.descriptions
    return [f"{answer}: {texts[answer]}" if answer in texts else answer for answer in _answers(examples)]


def _mean(sources: Sources, source: Source, ids: Ids) -> NDArray[np.float32]:
    """Return the mean (d,) of a view's vectors: of a sample, and of some ids that it holds."""
    chosen = np.union1d(sample(sources.held(source), MEAN_OF), ids)
    return np.asarray(sources.stored(source, chosen).embeddings.mean(axis=0))


def _document(resolved: FoundExamples, score: HeldOut) -> dict[str, Any]:
    """Return what is stored of a head besides its numbers."""
    examples = [
        {"content": content_id, "answer": answer}
        for content_id, answer in zip(resolved.content_ids.tolist(), resolved.answers, strict=True)
    ]
    return {
        "examples": examples,
        "descriptions": dict(resolved.descriptions),
        "unlearned": dict(resolved.unlearned),
        "before": asdict(score.before),
        "after": asdict(score.after),
        "held_out": score.examples,
        "right": list(score.right),
    }
