"""Report what an index holds from its database alone: no model is loaded and no vector index opened."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from retriever.core.errors import IndexDamagedError
from retriever.core.results import Held, IndexStatus, Lessons, ViewStatus
from retriever.core.types import JSON
from retriever.index.encoding import belongs
from retriever.index.generations import build_options
from retriever.index.run_record import last_runs
from retriever.index.verdicts.stored import stored_verdict
from retriever.store.database import Store
from retriever.store.views import View

ENCODER = "encoder"
"""The setting that describes the encoder that follows instructions, and fills the base view where none else does."""

PLAIN = "plain_reader"
"""The setting that describes the encoder of the base view, where that has one of its own."""

MODEL = "model"
"""Folder of an imported index's own checkpoint."""

OWN_MODEL = f"./{MODEL}"
"""Stands for the name of that checkpoint in the setting, so that the folder can be moved."""

_RUNS = 5
_WHEN = ("before", "after")


def index_status(store: Store, folder: Path) -> IndexStatus:
    """Report what the index in a folder holds, and how its last runs went."""
    indexing = next((run for run in store.runs.last(1000) if run.command == "index"), None)
    bad = [] if indexing is None else [asdict(row) for row in store.runs.quarantined(indexing.run_id)]
    return IndexStatus(
        path=str(folder),
        encoder=described(store) or {},
        plain=described(store, PLAIN),
        documents=len(store.documents),
        texts=store.documents.count_contents(),
        size_bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        views=view_states(store),
        vector_index=asdict(build_options(store)),
        runs=[{**asdict(run), "statistics": dict(run.statistics)} for run in last_runs(store, folder, _RUNS)],
        quarantined=bad,
        units=store.units.kind,
        unit_count=store.units.count() or len(store.documents),
    )


def described(store: Store, key: str = ENCODER) -> dict[str, JSON] | None:
    """Read an index's description of its encoder, or None; a checkpoint of its own is named by where it lies now."""
    found = store.settings.get(key)
    if not isinstance(found, dict):
        return None
    return {**found, "name": str(store.path.parent.resolve() / MODEL)} if found.get("name") == OWN_MODEL else found


@dataclass(frozen=True, slots=True)
class ReaderDescriptions:
    """The encoders of an index as it describes them.

    Attributes:
        question: the one that follows instructions.
        plain: the one that fills the base view; None where ``question`` does.
    """

    question: Mapping[str, JSON]
    plain: Mapping[str, JSON] | None = None

    def of(self, view: View) -> Mapping[str, JSON]:
        """Return the description of the encoder that reads under a view's instruction."""
        return self.question if view.key.instruction or self.plain is None else self.plain

    def make(self, view: View) -> bool:
        """Whether they make the vectors of a view."""
        return belongs(view.key, self.of(view))


def reader_descriptions(store: Store, question: str = ENCODER, plain: str = PLAIN) -> ReaderDescriptions | None:
    """Read an index's descriptions of its encoders, kept in settings of these names; None before there are any."""
    found = described(store, question)
    return None if found is None else ReaderDescriptions(found, described(store, plain))


def own_views(store: Store) -> list[View]:
    """Return the views of the index's encoders, oldest first; those that `reembed` left of another are none of them."""
    views = store.views.all()
    readers = reader_descriptions(store)
    return views if readers is None else [view for view in views if readers.make(view)]


def view_states(store: Store) -> list[ViewStatus]:
    """Return the state of every view of the index's encoders, oldest first."""
    texts = len(store.documents.live_contents())
    readers = reader_descriptions(store)
    return [
        _state(store, view, texts, "" if readers is None else str(readers.of(view).get("name") or ""))
        for view in own_views(store)
    ]


def _state(store: Store, view: View, texts: int, encoder: str) -> ViewStatus:
    generation = store.generations.active(view.view_id)
    vectors = store.vectors
    key = view.key
    return ViewStatus(
        view=view.view_id,
        instruction=key.instruction,
        encoder=encoder or key.fingerprint[:12],
        pooling=key.pooling,
        steps=key.steps,
        look_ahead=key.look_ahead,
        dtype=key.dtype,
        dim=key.dim,
        vectors=(stored := vectors.count(view.view_id)),
        bytes=stored * vectors.bytes_each(key.dim),
        coverage=_coverage(vectors.count_live(view.view_id), texts),
        lazy=view.lazy,
        generation=generation.generation_id if generation else None,
        backend=generation.backend if generation else None,
        factory=generation.factory if generation else None,
        recall=generation.recall if generation else None,
        tail=vectors.count_after(view.view_id, generation.watermark if generation else 0),
        last_used=view.last_used,
        taught=lessons_of(store, view),
        verdict=stored_verdict(store, view.view_id),
    )


def lessons_of(store: Store, view: View) -> Lessons | None:
    """Read what examples taught of a view; None where they taught nothing.

    Raises:
        IndexDamagedError: it is not what was stored.
    """
    stored = store.heads.of(view.view_id)
    if stored is None:
        return None
    known = stored.document
    try:
        before, after = (Held(*(float(known[when][end]) for end in ("value", "low", "high"))) for when in _WHEN)
        counts = Counter(str(one["answer"]) for one in known["examples"])
        answers = {answer: counts[answer] for answer in known["head"]["answers"]}
        held_out = int(known["held_out"])
        tuned = None if "tuned" not in known else bool(known["tuned"])
    except (KeyError, TypeError, ValueError) as error:
        raise IndexDamagedError(
            f"What view {view.view_id} was taught cannot be read: {error}.",
            hint="Run `retriever repair`, then teach it again.",
        ) from error
    return Lessons(stored.view_id, answers, before, after, held_out, stored.created, tuned)


def _coverage(held: int, texts: int) -> float:
    """Return the share of the texts that are held, rounded; below 1 where one is missing."""
    return 1.0 if held == texts else min(round(held / texts, 4), 0.9999)
