"""Teach questions anew under other encoders, from the examples that are kept with what they were taught.

Heads are learned before the encoders change and stored in the transaction that changes them, so that no search meets a
question half taught. The caller holds the writer's lock.
"""

from dataclasses import dataclass, field
from functools import partial

from retriever.core.errors import EncoderError, InputError, RetrieverError
from retriever.index.indexing import OnIndexing
from retriever.index.readers import Readers
from retriever.index.status import ReaderDescriptions
from retriever.index.teaching.examples import FoundExamples, require_enough
from retriever.index.teaching.taught import TaughtViews
from retriever.index.teaching.teacher import Learned, learn_question, question_of, store_learned, stored_examples
from retriever.store.database import Store
from retriever.store.heads import StoredHead
from retriever.store.views import View


@dataclass(slots=True)
class Retaught:
    """What becomes of taught questions under other encoders.

    Attributes:
        learned: by question, what was learned anew.
        lost: by question, why nothing could be.
    """

    learned: dict[str, Learned] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    def store(self, store: Store, readers: Readers) -> None:
        """Store what was learned with some readers, in the caller's transaction."""
        taught, tuned = TaughtViews(store), {one.plain.view_id for one in self.learned.values()}
        for one in self.learned.values():
            store_learned(store, readers, taught, one, tuned)


def reteach(
    store: Store,
    readers: Readers,
    current: ReaderDescriptions,
    wanted: ReaderDescriptions,
    run_id: int,
    progress: OnIndexing | None = None,
) -> Retaught:
    """Learn every question that is taught under the current encoders from its examples under others.

    One that these were taught by the same examples already is left as it is, and no model is loaded for it. Examples
    whose documents are gone are left out.

    Args:
        store: the index's database.
        readers: the encoders wanted.
        current: the encoders of the index now.
        wanted: those of ``readers``.
        run_id: of the run.
        progress: called with the growing report while examples are read.
    """
    found, sources = Retaught(), set(store.heads.sources().values())
    for view in store.views.all():
        if view.view_id not in sources or not current.make(view):
            continue
        asked = view.key.instruction
        try:
            before = store.heads.of(view.view_id)
            if before is None or _is_kept(store, before, asked, wanted):
                continue
            examples = _still_there(store, before)
            learn = partial(learn_question, store, readers, question_of(readers, asked), examples, run_id, progress)
            try:
                found.learned[asked] = learn(tune=_was_tuned(before, wanted))
            except EncoderError:  # this plain reader cannot be fine-tuned
                found.learned[asked] = learn()
        except RetrieverError as error:
            found.lost[asked] = error.message
    return found


def _is_kept(store: Store, before: StoredHead, asked: str, wanted: ReaderDescriptions) -> bool:
    """Whether the encoders wanted were taught a question by the examples of a head, on their own vectors."""
    made = [view for view in store.views.all() if wanted.make(view)]
    source, base = _of(made, asked), _of(made, "")
    kept = None if source is None else store.heads.of(source.view_id)
    if kept is None or base is None:
        return False
    plain = next(view for view in store.views.all() if view.view_id == kept.plain_id)
    if plain.view_id != base.view_id and not (plain.tuned and plain.key.fingerprint.endswith(base.key.fingerprint)):
        return False
    return stored_examples(kept) == stored_examples(before)


def _was_tuned(before: StoredHead, wanted: ReaderDescriptions) -> bool:
    """Whether a plain reader was fine-tuned for a question, so that one is again where there is one."""
    return bool(before.document.get("tuned")) and wanted.plain is not None


def _of(views: list[View], instruction: str) -> View | None:
    return next((view for view in views if view.key.instruction == instruction), None)


def _still_there(store: Store, head: StoredHead) -> FoundExamples:
    """Return the examples of a head whose documents are still there.

    Raises:
        InputError: these are too few to learn from.
    """
    answers = stored_examples(head)
    live = sorted(answers.keys() & set(store.documents.live_contents().tolist()))
    found = FoundExamples(live, [answers[one] for one in live])
    try:
        require_enough(found.answers)
    except InputError as error:
        gone = len(answers) - len(live)
        raise InputError(f"{gone} of its {len(answers)} examples were deleted. {error.message}") from error
    return found
