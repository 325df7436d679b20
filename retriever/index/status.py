"""Report what an index holds from its database alone: no model is loaded and no vector index opened."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from retriever.core.results import IndexStatus, ViewStatus
from retriever.index.dividing import kind
from retriever.index.encoding import without_memory
from retriever.index.generations import chosen_type
from retriever.index.run_record import last_runs
from retriever.index.sources.catalog import sources_of
from retriever.index.sources.encoders import PLAIN, described
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.index.verdicts.stored import stored_verdict
from retriever.store.database import Store
from retriever.store.views import View

_RUNS = 5


def index_status(store: Store, folder: Path) -> IndexStatus:
    """Report what the index in a folder holds, and how its last runs went, from one state of its database."""
    with store.snapshot():
        indexing = next((run for run in store.runs.last(1000) if run.command == "index"), None)
        bad = [] if indexing is None else [asdict(row) for row in store.runs.quarantined(indexing.run_id)]
        return IndexStatus(
            path=str(folder),
            encoder=without_memory(described(store) or {}),
            plain=None if (plain := described(store, PLAIN)) is None else without_memory(plain),
            documents=len(store.documents),
            texts=store.documents.count_contents(),
            size_bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
            views=view_states(store),
            vector_index=chosen_type(store),
            runs=[{**asdict(run), "statistics": dict(run.statistics)} for run in last_runs(store, folder, _RUNS)],
            quarantined=bad,
            units=kind(store),
            language=store.words.language.code,
            unit_count=store.documents.count_embedded(),
            fields={name: str(store.documents.types.held(path)) for name, path in store.documents.fields().items()},
            sent=dict(zip(("texts", "tokens"), store.spending.total(), strict=True)),
        )


def view_states(store: Store) -> list[ViewStatus]:
    """Return the state of every view of the index's encoders that is asked for, oldest first."""
    with store.snapshot():
        texts, sources = len(store.documents.live_contents()), sources_of(store)
        roots = [source for source in sources.visible() if source.root is source]
        return [_state(store, root.view, sources.family(root), texts) for root in roots if root.view]


def texts_read(store: Store, view_id: int) -> tuple[int, int]:
    """Return how many distinct texts have a vector in a view, and how many there are."""
    with store.snapshot():
        return store.vectors.count_live(view_id), store.documents.count_contents()


def _state(store: Store, view: View, family: Sequence[Source], texts: int) -> ViewStatus:
    """Return the state of a view, which is given with the sources that have its texts, its own first."""
    vectors, taught = store.vectors, next((source for source in family if isinstance(source, Taught)), None)
    generation, key = store.generations.active(view.view_id), asdict(view.key)
    fingerprint = key.pop("fingerprint")
    return ViewStatus(
        view=view.view_id,
        encoder=family[0].name or fingerprint[:12],
        **key,
        vectors=(stored := vectors.count(view.view_id)),
        bytes=(stored + (windows := vectors.count_windows(view.view_id))) * vectors.bytes_each(view.key.dim),
        coverage=_coverage(vectors.count_live(view.view_id), texts),
        lazy=view.lazy,
        generation=generation.generation_id if generation else None,
        backend=generation.backend if generation else None,
        factory=generation.factory if generation else None,
        recall=generation.recall if generation else None,
        tail=vectors.count_after(view.view_id, generation.watermark if generation else 0),
        last_used=view.last_used,
        taught=None if taught is None else taught.lessons(),
        verdict=stored_verdict(store, view.view_id),
        windows=windows,
    )


def _coverage(held: int, texts: int) -> float:
    """Return the share of the texts that are held, rounded; below 1 where one is missing."""
    return 1.0 if held == texts else min(round(held / texts, 4), 0.9999)
