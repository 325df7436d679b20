"""The operations that are interrupted: each from a state it makes, with the states it may leave behind.

What counts as a state: documents with their text, metadata and parts, vectors by encoder, instruction and text, the
encoder's fingerprint, and saved clusterings.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "index"))

from index_fakes import ALL_WORDS, MOOD, FakeEncoder

from retriever.core.errors import IndexNotFoundError
from retriever.core.types import Document
from retriever.index.generations import IndexType
from retriever.index.indexing import IndexingOptions
from retriever.index.reembedding import reembed, roll_back
from retriever.index.sources.encoders import ENCODER
from retriever.index.upkeep.archive import export_index, import_index
from retriever.store.database import DATABASE, Store
from retriever.workspace import Index

INDEX = Path("indexes/reviews")
ARCHIVE = Path("archive.tar")
OTHER = Path("indexes/other")
CORPUS = [Document(f"d{row:02}", f"{word} {ALL_WORDS[-row]}", {"row": row}) for row, word in enumerate(ALL_WORDS[:10])]
DIVIDED = [
    Document(one.id, " . ".join(f"{word} came too" for word in one.text.split()), one.metadata) for one in CORPUS
]
NEW = "second"
_MORE = [Document("more", f"{ALL_WORDS[3]} {ALL_WORDS[5]}")]
SMALL = IndexingOptions(batch=4)
"""Four rows are a batch."""
SENTENCES = IndexingOptions(batch=4, units="sentences")


@dataclass(frozen=True)
class Operation:
    """Something that writes.

    Attributes:
        prepare: makes the state to begin with, below a folder.
        run: does it, with an encoder.
        state: what is to be compared afterwards, below the folder.
        reads: how often its encoder reads documents; each time but the first is a state it may be stopped in.
        encoder: makes the encoder.
        between: a further state it may be stopped in, made of the first and the last.
    """

    prepare: Callable[[Path], None]
    run: Callable[[Path, FakeEncoder], Any]
    state: Callable[[Path], Any]
    reads: int = 0
    encoder: Callable[..., FakeEncoder] = FakeEncoder
    between: Callable[[Any, Any], Any] = lambda before, after: before


def state_of(path: Path) -> Mapping[str, Any]:
    """Return what an index holds."""
    try:
        with Store.open(path / DATABASE) as store:
            documents = store.documents.get(list(store.documents.ids()))
            texts = dict(store._db.rows("SELECT content_id, text FROM contents"))
            live = set(store.documents.live_contents().tolist())
            vectors = {
                (view.key.fingerprint, view.key.instruction): {
                    texts.get(content_id, f"gone {content_id}"): row.tobytes()
                    for batch in store.vectors.scan(view.view_id)
                    for content_id, row in zip(batch.content_ids.tolist(), batch.embeddings, strict=True)
                    if content_id in live
                }
                for view in store.views.all()
            }
            vectors = {key: held for key, held in vectors.items() if held}
            heads = {row.view_id: dict(store.sources.get(row.view_id).state) for row in store.sources.rows()}
            embedded = [one for group in store.documents.expand(list(live)).values() for one in group]
            encoder = store.settings.get(ENCODER)
            saved = {name: store.clusterings.get(name).document["places"] for name in store.clusterings.names()}
    except IndexNotFoundError:
        return {"documents": {}, "vectors": {}, "encoder": None, "clusterings": {}, "heads": {}, "parts": {}}
    held = {id: (one.text, dict(one.metadata)) for id, one in documents.items()}
    named = encoder and held and encoder["fingerprint"]
    return {
        "documents": held,
        "vectors": vectors,
        "encoder": named,
        "clusterings": saved,
        "heads": heads,
        "parts": {one.id: one.text for one in embedded if one.part},
    }


def _index(index: Index) -> None:
    index.add(CORPUS, instructions=[MOOD], options=SMALL)


def _index_sentences(index: Index) -> None:
    index.add(DIVIDED, instructions=[MOOD], options=SENTENCES)


def _divided(root: Path) -> None:
    """Make an index of sentences of which some documents are gone and some have another text."""
    with Index(root / INDEX, encoder=FakeEncoder()) as index:
        _index_sentences(index)
        index.add([Document("d02", "Something else came . And that too .")], options=SMALL)
        index.delete(["d01"])


def _filled(root: Path) -> None:
    with Index(root / INDEX, encoder=FakeEncoder()) as index:
        index.add(CORPUS[:6], options=SMALL)


def _viewed(root: Path) -> None:
    with Index(root / INDEX, encoder=FakeEncoder()) as index:
        _index(index)


def _cut_down(root: Path) -> None:
    _viewed(root)
    with Index(root / INDEX, encoder=FakeEncoder()) as index:
        index.delete(["d01", "d02"])


def _exported(root: Path) -> None:
    _viewed(root)
    export_index(root / INDEX, root / ARCHIVE)


def _on(method: Callable[[Index], Any]) -> Callable[[Path, FakeEncoder], Any]:
    def run(root: Path, encoder: FakeEncoder) -> Any:
        with Index(root / INDEX, encoder=encoder) as index:
            return method(index)

    return run


def _at(place: Path) -> Callable[[Path], Any]:
    return lambda root: state_of(root / place)


def _import(root: Path, encoder: FakeEncoder) -> None:
    if not (root / OTHER).exists():
        import_index(root / ARCHIVE, root / OTHER)


def _export(root: Path, encoder: FakeEncoder) -> None:
    if not (root / ARCHIVE).exists():
        export_index(root / INDEX, root / ARCHIVE)


def _archive_state(root: Path) -> Any:
    """Return what an import of the archive holds, or None where there is none."""
    if not (root / ARCHIVE).exists():
        return None
    if not (root / "check").exists():
        import_index(root / ARCHIVE, root / "check")
    return state_of(root / "check")


def _reembed(root: Path, encoder: FakeEncoder) -> None:
    with Index(root / INDEX) as index:
        done = index._opened.store.settings.get(ENCODER)["fingerprint"] == encoder.fingerprint
    if not done:
        reembed(root / INDEX, encoder, options=SMALL)


def _unswitched(before: Any, after: Any) -> Any:
    """Return the state in which all is embedded, and the encoder still the old one."""
    return {**after, "encoder": before["encoder"]}


def _reembedded(root: Path) -> None:
    _viewed(root)
    reembed(root / INDEX, _second())


def _roll_back(root: Path, encoder: FakeEncoder) -> None:
    with Index(root / INDEX) as index:
        done = index._opened.store.settings.get(ENCODER)["fingerprint"] == encoder.fingerprint
    if not done:
        roll_back(root / INDEX, load=lambda description: encoder)


def _searched(root: Path) -> None:
    _filled(root)
    with Index(root / INDEX, encoder=FakeEncoder()) as index:
        index.search("hot", instruction=MOOD)


def _drop(index: Index) -> None:
    if MOOD in {view.instruction for view in index.views()}:
        index.upkeep.drop_views([MOOD])


def _limit(index: Index) -> None:
    index.upkeep.lazy_limit = 0


def _save(index: Index) -> None:
    if "saved" not in index._opened.store.clusterings.names():
        index.clusterings.save("saved", index.cluster(MOOD, k=2))


def _teach(index: Index) -> None:
    index.teaching.teach(MOOD, [(one.id, "even" if row % 2 else "odd") for row, one in enumerate(CORPUS[:6])])


def _taught(root: Path) -> None:
    _viewed(root)
    with Index(root / INDEX, encoder=FakeEncoder()) as index:
        _teach(index)


def _forget(index: Index) -> None:
    if index.teaching.lessons(MOOD) is not None:
        index.teaching.forget(MOOD)


def _second(**options) -> FakeEncoder:
    return FakeEncoder(NEW, **options)


OPERATIONS: Mapping[str, Operation] = {
    "index": Operation(lambda root: None, _on(_index), _at(INDEX), 6),
    "add": Operation(_filled, _on(lambda i: i.add(CORPUS, options=SMALL)), _at(INDEX), 2),
    "delete": Operation(_viewed, _on(lambda i: i.delete(["d01", "d07"])), _at(INDEX)),
    "compact": Operation(_cut_down, _on(lambda i: i.upkeep.repair(IndexType())), _at(INDEX)),
    "complete": Operation(_filled, _on(lambda i: i.upkeep.complete([MOOD], options=SMALL)), _at(INDEX), 2),
    "search": Operation(_filled, _on(lambda i: i.search("hot", instruction=MOOD)), _at(INDEX), 1),
    "reembed": Operation(_viewed, _reembed, _at(INDEX), 6, _second, _unswitched),
    "export": Operation(_viewed, _export, _archive_state),
    "import": Operation(_exported, _import, _at(OTHER)),
    "rollback": Operation(_reembedded, _roll_back, _at(INDEX)),
    "drop view": Operation(_viewed, _on(_drop), _at(INDEX)),
    "evict": Operation(_searched, _on(_limit), _at(INDEX)),
    "index sentences": Operation(lambda root: None, _on(_index_sentences), _at(INDEX), 6),
    "compact sentences": Operation(_divided, _on(lambda i: i.upkeep.repair(IndexType())), _at(INDEX)),
    "save": Operation(_viewed, _on(_save), _at(INDEX)),
    "teach": Operation(_viewed, _on(_teach), _at(INDEX)),
    "add to a taught view": Operation(_taught, _on(lambda i: i.add(_MORE, options=SMALL)), _at(INDEX), 2),
    "forget": Operation(_taught, _on(_forget), _at(INDEX)),
}


def legal_states(operation: Operation, root: Path) -> list[Any]:
    """Return the states an interruption may leave: before, after, and whole batches between.

    Those between are made by an encoder that falls over, which needs no file system to fail.
    """
    states = []
    for call in range(1, operation.reads + 2):
        place = root / f"call-{call}"
        operation.prepare(place)
        if call == 1:
            states.append(operation.state(place))
        stopped = call <= operation.reads
        try:
            operation.run(place, operation.encoder(fail_at=call if stopped else 0))
        except RuntimeError:
            assert stopped
        states.append(operation.state(place))
    return [operation.between(states[0], states[-1]), *states]
