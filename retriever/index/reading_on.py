"""Reading on: texts that the views of questions lack, a few at a time, for when nobody waits.

Which questions are half read, and in which order, follows from their views. What a day's reading has taken is a setting
of the index. No language model is asked, and nothing but what an encoder of this process reads is filled. The writer's
lock stays free: each few texts are one short transaction, as those that a search reads.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from retriever.core.errors import RetrieverError
from retriever.index.opened import Opened
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import fill
from retriever.index.sources.source import Source
from retriever.index.view_upkeep import KEPT, lazy_bytes, lazy_limit
from retriever.store.database import Store
from retriever.store.lock import LOCK_NAME, WriterLock

SPENT = "read_on"
"""The setting that holds the day on which texts were read on last, UTC, and the seconds that it took."""

TURN_TEXTS = 200
"""Most texts that are drawn for a question at a time."""

_AT_ONCE = 64  # texts of a pass
_COUNTED = 2000  # characters of a text; of longer ones, encoders read about the beginning
_PROMPT = 100  # characters that a question adds to a text, about


@dataclass(frozen=True, slots=True)
class HalfRead:
    """A question under which a part of the texts is read.

    Attributes:
        instruction: the question.
        read: distinct texts that were read under it.
        texts: distinct texts that there are.
        view: id of its view.
        last_used: when it was last used, ISO 8601 in UTC, to the minute.
    """

    instruction: str
    read: int
    texts: int
    view: int
    last_used: str


def half_read(opened: Opened) -> list[HalfRead]:
    """Return the questions whose texts can be read on, the one used last first; no encoder is loaded.

    Left out are questions that a language model answers, and lazily filled views where the limit of these is reached.
    """
    store, sources = opened.store, opened.known_sources
    with store.snapshot():
        texts = store.documents.count_contents()
        every = [
            HalfRead(root.instruction, store.vectors.count_live(root.view_id), texts, root.view_id, root.view.last_used)
            for root in _roots(sources)
            if root.view is not None and _room(store, sources, root) > 0
        ]
    return sorted(
        (each for each in every if each.read < texts), key=lambda each: (each.last_used, each.view), reverse=True
    )


def is_written(opened: Opened) -> bool:
    """Return whether somebody holds the writer's lock of an index: then its texts can wait."""
    return WriterLock(opened.path / LOCK_NAME).is_held()


def spent_seconds(opened: Opened, day: str) -> float:
    """Return the seconds of the processor that reading on has taken on a day."""
    spent = opened.store.settings.get(SPENT)
    if not isinstance(spent, dict) or spent.get("day") != day:
        return 0.0
    seconds = spent.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def spend(opened: Opened, day: str, seconds: float) -> float:
    """Count seconds of the processor on a day, beside those that other processes count; return that day's."""
    store = opened.store
    with store.writing(data=False):
        total = spent_seconds(opened, day) + seconds
        store.settings.set(SPENT, {"day": day, "seconds": round(total, 3)})
    return total


class Turn:
    """Texts that a question's view lacks, drawn at random, to be read a few at a time.

    At random, since searches learn from what was read last, and so that two processes seldom read the same.

    Args:
        opened: the index.
        view: id of the question's view; where it is gone by now, there is nothing to read.
    """

    def __init__(self, opened: Opened, view: int) -> None:
        self._store, self._sources = opened.store, opened.known_sources
        self._root = next((root for root in _roots(self._sources) if root.view_id == view), None)
        pending = self._store.vectors.pending(view).tolist()
        most = 0 if self._root is None else _room(self._store, self._sources, self._root)
        self._ids: list[int] = random.sample(pending, min(len(pending), most, TURN_TEXTS))

    @property
    def over(self) -> bool:
        """Whether nothing is left to read."""
        return not self._ids

    def read(self, characters: int) -> int:
        """Read the next texts, as many as have so many characters together with their prompts, and at least one.

        Returns:
            The characters of these, about; 0 where there was nothing to read.

        Raises:
            RetrieverError: they cannot be read or stored. Where the view was dropped meanwhile, the turn is over.
        """
        root, length = self._root, 0
        if root is None or not self._ids:
            return 0
        texts, chosen = self._store.documents.texts(self._ids[:_AT_ONCE]), list[int]()
        for content_id in self._ids[:_AT_ONCE]:
            more = _PROMPT + min(_COUNTED, len(texts.get(content_id, "")))
            if chosen and length + more > characters:
                break
            chosen.append(content_id)
            length += more
        self._ids = self._ids[len(chosen) :]
        try:
            fill(self._sources, _filled(self._sources, root), chosen, makes=False)
        except RetrieverError:
            if self._sources.view(root) is not None:
                raise
        if self._sources.view(root) is None:
            self._ids = []
        return length


def _roots(sources: Sources) -> Iterator[Source]:
    """Yield the sources whose texts encoders read for the questions of an index, by what serves these."""
    questions = dict.fromkeys(source.instruction for source in sources.visible() if source.instruction)
    for root in dict.fromkeys(sources.of(question).root for question in questions):
        if root.reads and not root.in_words and root.view is not None:
            yield root


def _filled(sources: Sources, root: Source) -> list[Source]:
    """Return the sources that are filled for a question, needed ones first; the base view is filled by indexing."""
    return [source for source in sources.with_dependents([root]) if source != sources.base]


def _room(store: Store, sources: Sources, root: Source) -> int:
    """Return how many more texts the limit of lazily filled views leaves a question, some room for searches kept."""
    limit = lazy_limit(store) if root.view is not None and root.view.lazy else None
    if limit is None:
        return TURN_TEXTS
    each = sum(store.vectors.bytes_each(source.key.dim) for source in _filled(sources, root))
    return max(0, int(KEPT * limit - lazy_bytes(store)) // each)
