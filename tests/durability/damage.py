"""Bits flipped in every region of every file of an index, and files cut short; each judged in a process of its own.

A damaged copy is searched, verified, repaired, verified and searched again. What comes of it is a `Verdict`.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from index_fakes import MOOD, FakeEncoder, gives
from operations import CORPUS, DIVIDED, SENTENCES, state_of
from replay import read_tree, write_tree

from retriever.core.errors import RetrieverError, SchemaError
from retriever.core.types import BadRow, Document
from retriever.index.indexing import IndexingOptions
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE, Store
from retriever.workspace import Index

SECONDS = 60
SAVED = "saved"
WAL = f"{DATABASE}-wal"
_WAL_HEADER, _FRAME_HEADER = 32, 24


class Verdict(StrEnum):
    """The outcome of damage.

    FOUND: an error names it, or `verify --deep` does. HARMLESS: everything is answered as before. EARLIER: the log ends
    where it is damaged, which SQLite cannot tell from a crash. HIDDEN: a search answered otherwise, without an error,
    before `verify --deep` named the damage. WRONG: other answers, and `verify --deep` calls the index whole. CRASHED: a
    signal, no end, or an error that is none of ours.
    """

    FOUND = "found"
    HARMLESS = "harmless"
    EARLIER = "earlier commit"
    HIDDEN = "found by verify alone"
    WRONG = "wrong"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Damage:
    """One file changed.

    Attributes:
        file: its name below the index.
        region: what the changed bytes are part of.
        what: how they were changed.
        data: the whole file afterwards.
        earlier: the whole file as it was before the commits that hold these bytes, where it is a log.
    """

    file: str
    region: str
    what: str
    data: bytes
    earlier: bytes | None = None


@dataclass
class Outcome:
    """The outcome of all damage: verdicts by region, what was repaired, and what must not be."""

    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    repaired: int = 0
    bad: list[str] = field(default_factory=list)

    def add(self, damage: Damage, verdict: Verdict, repaired: bool, why: str) -> None:
        """Count one."""
        self.verdicts.setdefault(damage.region, Counter())[verdict] += 1
        self.repaired += repaired
        if verdict in (Verdict.WRONG, Verdict.CRASHED) or why:
            self.bad.append(f"{damage.file}, {damage.region}, {damage.what}: {verdict} {why}".rstrip())

    def total(self, verdict: Verdict) -> int:
        """Return how often a verdict was given."""
        return sum(counts[verdict] for counts in self.verdicts.values())


def make_index(path: Path, corpus: Sequence[Document] = CORPUS, options: IndexingOptions | None = None) -> None:
    """Make a closed index that has a row of every kind."""
    with Index(path, encoder=FakeEncoder()) as index:
        bad = BadRow("reviews.jsonl", 3, "bad", "no text", "{}")
        index.add([*corpus, bad], instructions=[MOOD], options=options)
        index.clusterings.save(SAVED, index.cluster(MOOD, k=2))
        index.search("hot", instruction=MOOD)
        index.delete(["d03"])
        index.add(corpus[:1])


def make_divided_index(path: Path) -> None:
    """Make one of sentences."""
    make_index(path, DIVIDED, SENTENCES)


def make_killed_index(path: Path, draft: Path) -> None:
    """Make an index whose last commits are in the log alone, as a killed process leaves it."""
    make_index(draft)
    with Index(draft, encoder=FakeEncoder()) as index:
        index.delete(["d05"])
        index.add(CORPUS[3:4])
        index.delete(["d07"])
        write_tree(path, read_tree(draft))


def damages(path: Path, files: Iterable[str], each: int, seed: int = 0) -> Iterator[Damage]:
    """Yield single flipped bits, and cuts, of some files of an index: in every region ``each`` flips and three cuts.

    The regions of the database are its tables and indexes, page by page; those of the log its header and frames.
    """
    chance = random.Random(seed)
    for file in files:
        data = (path / file).read_bytes()
        size = _page_size(path)
        for region, offsets in _regions(path, file, data):
            chosen = {*offsets[:2], *chance.sample(offsets, min(each, len(offsets)))}
            for at in sorted(chosen):
                flipped = bytearray(data)
                flipped[at] ^= 1 << chance.randrange(8)
                earlier = _log_before(data, at, size) if file == WAL else None
                yield Damage(file, region, f"bit flipped at byte {at}", bytes(flipped), earlier)
        for at in _cuts(data, size):
            earlier = _log_before(data, at, size) if file == WAL else None
            yield Damage(file, "end cut off", f"cut to {at} bytes", data[:at], earlier)


def file_damages(file: str, data: bytes, each: int, seed: int = 0) -> Iterator[Damage]:
    """Yield single flipped bits in each eighth of a file, and cuts."""
    chance = random.Random(seed)
    for region, offsets in _eighths(data):
        for at in sorted(chance.sample(offsets, min(each, len(offsets)))):
            flipped = bytearray(data)
            flipped[at] ^= 1 << chance.randrange(8)
            yield Damage(file, region, f"bit flipped at byte {at}", bytes(flipped))
    for at in _cuts(data, 512):
        yield Damage(file, "end cut off", f"cut to {at} bytes", data[:at])


def torture(path: Path, found: Iterable[Damage], folder: Path) -> Outcome:
    """Judge every damage to the index at a path."""
    tree = read_tree(path)
    folder.mkdir(parents=True)
    expected = _in_child(_laid_out(folder, tree))
    outcome = Outcome()
    for damage in found:
        place = _laid_out(folder, {**tree, damage.file: damage.data})
        seen = _in_child(place)
        before = None
        if damage.earlier is not None and seen.get("answers") != expected["answers"]:
            before = _in_child(_laid_out(folder, {**tree, damage.file: damage.earlier}))
        verdict, why = _verdict(seen, expected, before)
        outcome.add(damage, verdict, bool(seen.get("repaired")), why)
    return outcome


def _verdict(seen: dict[str, Any], expected: dict[str, Any], before: dict[str, Any] | None) -> tuple[Verdict, str]:
    if "crash" in seen:
        return Verdict.CRASHED, seen["crash"]
    why = _repair_failed(seen, expected)
    same, named = seen.get("answers") == expected["answers"], bool(seen["findings"])
    if before is not None and seen.get("answers") == before.get("answers") and not named:
        return Verdict.EARLIER, why
    if seen.get("answers") is None or (same and named):
        return Verdict.FOUND, why
    if named:
        return Verdict.HIDDEN, why
    return (Verdict.HARMLESS if same else Verdict.WRONG), why


def _repair_failed(seen: dict[str, Any], expected: dict[str, Any]) -> str:
    """Say what is wrong after a repair: the index must be whole and answer as before, or say what does not.

    A repair may refuse only what docs/storage.md calls out of its reach.
    """
    if not seen["findings"] or seen.get("out of reach"):
        return ""
    if not seen["repaired"]:
        return f"not repaired: {seen['left alone']}"
    if seen["after"]["findings"]:
        return f"still damaged after repair: {seen['after']['findings'][0]}"
    same = seen["after"].get("answers") == expected["answers"]
    return "" if same or seen["lost"] else "answers otherwise after repair"


def look(path: Path) -> dict[str, Any]:
    """Search, verify and repair an index; return what happened as JSON."""
    seen: dict[str, Any] = _looked_at(path)
    if seen["findings"]:
        try:
            done = repair(path, load=gives(FakeEncoder))
            seen |= {"repaired": True, "lost": done.lost}
            seen["after"] = _looked_at(path)
        except RetrieverError as error:
            seen |= {"repaired": False, "left alone": str(error), "out of reach": _out_of_reach(path, error)}
    return seen


def _out_of_reach(path: Path, error: RetrieverError) -> bool:
    """Whether only a copy helps: pages, the schema, a key, or the encoder's record changed."""
    if isinstance(error, SchemaError) or any(said in str(error) for said in ("it no longer says", "no such column")):
        return True
    try:
        Store.open(path / DATABASE, check=False).close()
        with closing(sqlite3.connect(path / DATABASE)) as database:
            database.execute("REINDEX")
            return database.execute("PRAGMA integrity_check").fetchall() != [("ok",)]
    except (sqlite3.DatabaseError, RetrieverError):
        return True


def _looked_at(path: Path) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    try:
        seen["answers"] = answers(path)
    except RetrieverError as error:
        seen["error"] = str(error)
    try:
        found = verify(path, deep=True, load=gives(FakeEncoder)).findings
        seen["findings"] = [f"{one.artefact}: {one.problem}" for one in found]
    except RetrieverError as error:
        seen["findings"] = [str(error)]
    return seen


def answers(path: Path) -> Any:
    """Return what an index answers to searches of every kind, and what it holds, as JSON."""
    with Index(path, encoder=FakeEncoder()) as index:
        asked = [
            index.search(query, instruction=instruction, mode=mode, where=where, k=50)
            for query in ("hot kettle", "sad")
            for instruction in ("", MOOD)
            for mode, where in (("dense", None), ("lexical", None), ("hybrid", None), ("dense", "row <= 5"))
        ]
        hits = [[(hit.document.id, hit.document.text, hit.score, hit.words) for hit in one.hits] for one in asked]
        clustering = index.clusterings.get(SAVED)
        views = [(one.instruction, one.coverage) for one in index.views()]
    state = state_of(path)
    vectors = {
        str(key): sorted((text, row.hex()) for text, row in held.items()) for key, held in state["vectors"].items()
    }
    held = [state["documents"], state["encoder"], vectors, state["parts"]]
    return json.loads(json.dumps([hits, clustering.to_json()["assignments"], views, held], default=list))


def _in_child(path: Path) -> dict[str, Any]:
    """Look at an index in a forked process, which may die."""
    said = path.with_name("said.json")
    said.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            said.write_text(json.dumps(look(path)))
        except BaseException:  # an error that is none of ours is a crash
            said.write_text(json.dumps({"crash": traceback.format_exc()[-600:]}))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"crash": f"signal {os.WTERMSIG(status)}"}
    found: dict[str, Any] = json.loads(said.read_text())
    return found


def _laid_out(folder: Path, tree: dict[str, bytes | None]) -> Path:
    place = folder / "damaged"
    if place.exists():
        shutil.rmtree(place)
    write_tree(place, tree)
    return place


def _page_size(path: Path) -> int:
    return int.from_bytes((path / DATABASE).read_bytes()[16:18], "big") or 65536


def _regions(path: Path, file: str, data: bytes) -> Iterator[tuple[str, range]]:
    """Yield the regions of a file with the offsets of their bytes."""
    size = _page_size(path)
    if file == DATABASE:
        yield "file header", range(100)
        for page, owner in _page_owners(path / file).items():
            start = (page - 1) * size + (100 if page == 1 else 0)
            yield f"page header of {owner}", range(start, start + 12)
            yield f"page of {owner}", range(start + 12, page * size)
    elif file == WAL:
        yield "log header", range(_WAL_HEADER)
        for start in range(_WAL_HEADER, len(data), size + _FRAME_HEADER):
            yield "log frame header", range(start, start + _FRAME_HEADER)
            yield "log frame", range(start + _FRAME_HEADER, start + _FRAME_HEADER + size)
    else:
        yield from _eighths(data)


def _eighths(data: bytes) -> Iterator[tuple[str, range]]:
    size = max(1, len(data) // 8)
    for start in range(0, len(data), size):
        yield "file", range(start, min(len(data), start + size))


def _cuts(data: bytes, block: int) -> list[int]:
    """Return where a file is cut: to nothing, in the middle, by a block, and by a byte."""
    return sorted({0, len(data) // 2, len(data) - 1, len(data) - block} & set(range(len(data))))


def _page_owners(database: Path) -> dict[int, str]:
    """Return the table or index that owns each page; the FTS5 tables of the word index count as one."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
        rows = opened.execute("SELECT pageno, name FROM dbstat ORDER BY pageno").fetchall()
        pages = opened.execute("PRAGMA page_count").fetchone()[0]
    owners = {page: "contents_fts" if name.startswith("contents_fts") else name for page, name in rows}
    return {page: owners.get(page, "free page") for page in range(1, pages + 1)}


def _log_before(data: bytes, at: int, size: int) -> bytes:
    """Return a log as far as the frame that holds a byte."""
    if at < _WAL_HEADER:
        return b""
    frame = (at - _WAL_HEADER) // (size + _FRAME_HEADER)
    return data[: _WAL_HEADER + frame * (size + _FRAME_HEADER)]
