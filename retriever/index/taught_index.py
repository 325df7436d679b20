"""An index whose questions can be taught by examples."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import InputError, UsageError
from retriever.core.results import Lessons
from retriever.core.types import Embeddings, Ids
from retriever.index.filled_index import FilledIndex
from retriever.index.generations import build_outgrown
from retriever.index.indexing import Indexer, OnIndexing
from retriever.index.search.centering import sample
from retriever.index.status import lessons_of, own_views
from retriever.index.teaching.examples import Example, FoundExamples, found_examples, given_examples
from retriever.index.teaching.head import Head
from retriever.index.teaching.learning import Lesson, learn
from retriever.index.teaching.scoring import HeldOut, held_out_score
from retriever.index.teaching.taught import taught_key
from retriever.index.view_upkeep import clear_dropped
from retriever.store.views import View

MEAN_OF = 2000
"""Most vectors whose mean stands for that of a view."""


class TaughtIndex(FilledIndex):
    """An index (`retriever.workspace.Index`) that learns from examples what a question means."""

    def teach(
        self,
        instruction: str,
        examples: Iterable[Example | Mapping[str, object] | tuple[str, str]],
        *,
        progress: OnIndexing | None = None,
    ) -> Lessons:
        """Teach a question by examples; searches, clusters and comparisons under it use what was learned at once.

        A head is learned on the vectors that the view has, and gives every text of it another vector, in which texts of
        one answer lie together. Only examples that the view lacks, and the answers' own names, are read. What was
        taught before of the same question is replaced.

        Args:
            instruction: the question.
            examples: pairs of document id and answer, mappings with ``id`` or ``text`` and ``answer``, or `Example`s;
                three or more an answer.
            progress: called with the growing report while examples are read.

        Raises:
            InputError: a document or text is not in the index, a text has two answers, an answer has too few examples,
                all have the same, or a row is no example. Nothing is changed then.
            UsageError: the question is empty or the default one, or there are too many examples.
            IndexLockedError: another process writes to this index.
        """
        asked = self._question(instruction)
        found = found_examples(self.store, given_examples(examples))
        with self._writing("teach") as run_id:
            source, plain = self._with_examples(asked, found, run_id, progress)
            lesson = self._lesson(source, plain, found)
            head, score = learn(lesson), held_out_score(lesson)
            self._store_head(source, plain, head, _document(head, found, score))
            build_outgrown(self.store, [source], self.path, self._device)
            clear_dropped(self.store, self.path)
        lessons = lessons_of(self.store, source)
        if lessons is None:
            raise InputError(f"The view of {asked!r} was dropped while it was taught.", hint="Teach it again.")
        return lessons

    def forget(self, instruction: str) -> None:
        """Forget what a question was taught; its untaught view serves again, and no model is loaded.

        Raises:
            InputError: it was taught nothing.
            IndexLockedError: another process writes to this index.
        """
        source = self._taught_source(instruction)
        if source is None:
            raise InputError(
                f"{instruction.strip()!r} was taught nothing.", hint="`retriever views` shows what was taught."
            )
        with self._writing("forget"):
            with self.store.transaction():
                self._drop_taught(source)
            clear_dropped(self.store, self.path)

    def shown(self, view: View) -> View:
        """Return the view that is searched and clustered where one is asked for: what it was taught, or itself."""
        return self._open_views.taught.shown(view)

    def lessons(self, instruction: str) -> Lessons | None:
        """Return what a question was taught; None for nothing. No model is loaded."""
        source = self._taught_source(instruction)
        return None if source is None else lessons_of(self.store, source)

    def examples(self, instruction: str) -> dict[str, str]:
        """Return the examples that a question was taught by: answers by the ids of documents that are still there."""
        source = self._taught_source(instruction)
        stored = None if source is None else self.store.heads.of(source.view_id)
        if stored is None:
            return {}
        answers = {int(one["content"]): str(one["answer"]) for one in stored.document["examples"]}
        groups = self.store.documents.expand(sorted(answers))
        return {min(one.id for one in group): answers[content] for content, group in groups.items()}

    def _taught_source(self, instruction: str) -> View | None:
        """Return the untaught view of a question that was taught; None of any other."""
        made_of = set(self.store.heads.sources().values())
        asked = [view for view in own_views(self.store) if view.key.instruction == instruction.strip()]
        return next((view for view in asked if view.view_id in made_of), None)

    def _drop_taught(self, source: View) -> None:
        """Remove the taught view of a view, if any, in the caller's transaction."""
        for view_id, made_of in self.store.heads.sources().items():
            if made_of == source.view_id:
                self.store.views.drop(view_id)

    def _shown_fingerprint(self, instruction: str) -> str:
        """Return the fingerprint of the view that is shown for an instruction."""
        key = self.readers.view_key(instruction)
        view = self.store.views.find(key)
        return key.fingerprint if view is None else self.shown(view).key.fingerprint

    def _question(self, instruction: str) -> str:
        """Return the question as its view has it."""
        asked = self.readers.view_key(instruction).instruction
        if not asked:
            raise UsageError("There is no question to teach.", hint="Name it with --instruction.")
        return asked

    def _with_examples(
        self, asked: str, found: FoundExamples, run_id: int, progress: OnIndexing | None
    ) -> tuple[View, View]:
        """Return the views of the question and the base view, which hold the examples."""
        ids = np.array(found.content_ids, dtype=np.int64)
        views = [self.store.views.find(self.readers.view_key(one)) for one in (asked, "")]
        if any(view is None or self.store.vectors.missing(view.view_id, ids) for view in views):
            indexer = Indexer(self.store, self.readers, [asked], progress=progress, lazy=True)
            indexer.fill(run_id, ids)
        source, plain = (self.store.views.find(self.readers.view_key(one)) for one in (asked, ""))
        if source is None or plain is None:
            raise InputError(f"The view of {asked!r} was dropped while it was taught.", hint="Teach it again.")
        return source, plain

    def _lesson(self, source: View, plain: View, found: FoundExamples) -> Lesson:
        answers = sorted(set(found.answers))
        numbers = {answer: number for number, answer in enumerate(answers)}
        readers, ids = self.readers, np.array(found.content_ids, dtype=np.int64)
        return Lesson(
            answers=answers,
            labels=np.array([numbers[one] for one in found.answers], dtype=np.int64),
            vectors=self._vectors(source, ids),
            plain=self._vectors(plain, ids),
            names=readers.question.encode(answers, instruction=source.key.instruction),
            plain_names=readers.base.encode(answers),
            mean=self._mean(source, ids),
            plain_mean=self._mean(plain, ids),
        )

    def _vectors(self, view: View, ids: Ids) -> Embeddings:
        return self.store.vectors.get(view.view_id, ids).embeddings

    def _mean(self, view: View, ids: Ids) -> NDArray[np.float32]:
        """Return the mean (d,) of a view's vectors: of a sample, and of some ids that it holds."""
        held = self.store.vectors.content_ids(view.view_id, through=self.store.vectors.last_id(view.view_id))
        chosen = np.union1d(sample(held, MEAN_OF), ids)
        return np.asarray(self._vectors(view, chosen).mean(axis=0))

    def _store_head(self, source: View, plain: View, head: Head, document: Mapping[str, Any]) -> None:
        """Put a taught view in the place of the one before, whole, in one transaction."""
        key = taught_key(source.key, plain.key, head)
        with self.store.transaction():
            self._drop_taught(source)
            view = self.store.views.ensure(key)
            self.store.heads.put(view.view_id, source.view_id, plain.view_id, head.to_bytes(), document)
            self._open_views.taught.derive_all(source)


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
