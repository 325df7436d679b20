"""An index whose questions can be taught by examples."""

from collections.abc import Iterable, Mapping

from retriever.core.errors import InputError
from retriever.core.results import Lessons
from retriever.index.filled_index import FilledIndex
from retriever.index.generations import build_outgrown
from retriever.index.indexing import OnIndexing
from retriever.index.status import lessons_of, own_views
from retriever.index.teaching.examples import Example, found_examples, given_examples
from retriever.index.teaching.teacher import drop_taught, learn_question, question_of, store_learned, stored_examples
from retriever.index.view_upkeep import clear_dropped
from retriever.store.views import View


class TaughtIndex(FilledIndex):
    """An index (`retriever.workspace.Index`) that learns from examples what a question means."""

    def teach(
        self,
        instruction: str,
        examples: Iterable[Example | Mapping[str, object] | tuple[str, str]],
        *,
        tune: bool = False,
        progress: OnIndexing | None = None,
    ) -> Lessons:
        """Teach a question by examples; searches, clusters and comparisons under it use what was learned at once.

        A head is learned on the vectors that the view has, and gives every text of it another vector, in which texts of
        one answer lie together. Only examples that the view lacks, and the answers' own names, are read. What was
        taught before of the same question is replaced.

        With ``tune`` the plain reader is fine-tuned on the examples besides, and reads every text of the view anew,
        where that helps with examples left out: minutes, for questions that are not followed.

        Args:
            instruction: the question.
            examples: pairs of document id and answer, mappings with ``id`` or ``text`` and ``answer``, or `Example`s;
                three or more an answer.
            tune: whether to fine-tune the plain reader too.
            progress: called with the growing report while examples are read, and of fine-tuning, whose steps
                ``in_hand`` counts where ``tuning`` is true. What it raises ends this, and nothing is changed.

        Raises:
            InputError: a document or text is not in the index, a text has two answers, an answer has too few examples,
                all have the same, or a row is no example. Nothing is changed then.
            EncoderError: the plain reader cannot be fine-tuned, which ``tune`` asks for, or the index has none.
            UsageError: the question is empty or the default one, or there are too many examples.
            IndexLockedError: another process writes to this index.
        """
        asked = question_of(self.readers, instruction)
        found = found_examples(self.store, given_examples(examples))
        with self._writing("teach") as run_id:
            learned = learn_question(self.store, self.readers, asked, found, run_id, progress, tune=tune)
            with self.store.transaction():
                store_learned(self.store, self.readers, self._open_views.taught, learned)
            build_outgrown(self.store, [learned.source], self.path, self._device)
            clear_dropped(self.store, self.path)
        lessons = lessons_of(self.store, learned.source)
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
                drop_taught(self.store, source)
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
        answers = stored_examples(stored)
        groups = self.store.documents.expand(sorted(answers))
        return {min(one.id for one in group): answers[content] for content, group in groups.items()}

    def _taught_source(self, instruction: str) -> View | None:
        """Return the untaught view of a question that was taught; None of any other."""
        made_of = set(self.store.heads.sources().values())
        asked = [view for view in own_views(self.store) if view.key.instruction == instruction.strip()]
        return next((view for view in asked if view.view_id in made_of), None)

    def _shown_fingerprint(self, instruction: str) -> str:
        """Return the fingerprint of the view that is shown for an instruction."""
        key = self.readers.view_key(instruction)
        view = self.store.views.find(key)
        return key.fingerprint if view is None else self.shown(view).key.fingerprint
