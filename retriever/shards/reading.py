"""What a search reads of a corpus in shards: as of one database, but asked of all shards and merged.

Ids of texts and vectors are the same in all shards as they would be in one index, so merged answers are those of one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.errors import RetrieverError
from retriever.core.types import Document, Ids
from retriever.shards.fleet import Fleet
from retriever.shards.messages import NOTHING, Condition, Expanded, PartOfView
from retriever.shards.runs import joined
from retriever.shards.session import Session
from retriever.store.connection import utc_now
from retriever.store.filters import Filter
from retriever.store.lexical import LexicalHit, phrases
from retriever.store.similarities import Similarities
from retriever.store.vectors import StoredVectors, VectorRevision
from retriever.store.views import View, ViewKey
from retriever.store.words import RankedText, WordCounts


@dataclass(frozen=True, slots=True)
class Selection:
    """The texts that a filter allows; which they are, every shard works out for itself."""

    where: Filter


class ViewIds:
    """Numbers for views, since a shard may know one under a number of its own; and when each was last used here."""

    def __init__(self) -> None:
        self._keys: dict[int, ViewKey] = {}
        self._used: dict[ViewKey, str] = {}

    def view(self, key: ViewKey, found: Sequence[View]) -> View:
        """Return a view as one, of what the shards that know it have of it."""
        number = next((one for one, other in self._keys.items() if other == key), None)
        if number is None:
            number = found[0].view_id if found[0].view_id not in self._keys else max(self._keys) + 1
            self._keys[number] = key
        used = max([one.last_used for one in found] + [self._used.get(key, "")])
        return View(number, key, min(one.created for one in found), used, all(one.lazy for one in found))

    def key(self, number: int) -> ViewKey:
        """Return the key of a view that was met before."""
        if number not in self._keys:
            raise RetrieverError(f"The index has no view {number}.", hint="`retriever status` lists them.")
        return self._keys[number]

    def used(self, key: ViewKey) -> None:
        """Note that a view is used now."""
        self._used[key] = utc_now()


class ShardedDocuments:
    """The documents of all shards; see `store.documents.Documents`."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __len__(self) -> int:
        return sum(state.documents for state in self._fleet.states.values())

    def count_to(self, most: int) -> int:
        """Count the documents, but no further than ``most``."""
        return min(most, len(self))

    def fields(self) -> dict[str, str]:
        """Return the metadata fields ever seen."""
        found: dict[str, str] = {}
        for state in self._fleet.states.values():
            found.update(state.fields)
        return dict(sorted(found.items()))

    def condition(self, where: Filter | None) -> Condition | None:
        """Return a filter as shards take it.

        Raises:
            FilterError: it names a field no document has.
        """
        if where is None:
            return None
        fields = self.fields()
        where.compile(fields)
        return Condition(where, fields)

    def matching(self, where: Filter) -> Selection:
        """Return what a filter allows, for `ShardedView`.

        Raises:
            FilterError: it names a field no document has.
        """
        self.condition(where)
        return Selection(where)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents that exist, by id, in the order asked for."""
        found: dict[str, Document] = {}
        for part in self._fleet.ask("documents_of", list(ids)).values():
            found.update(part)
        return {id: found[id] for id in dict.fromkeys(ids) if id in found}

    def contents_of(self, ids: Sequence[str]) -> Ids:
        """Return the contents of some documents, ascending; unknown ones are left out."""
        found = self._fleet.ask("contents_of", list(ids)).values()
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def pattern_counts(self, regex: str, where: Filter | None) -> dict[int, int]:
        """Return by content how often a regular expression is in a text that a filter allows, where it is."""
        counts: dict[int, int] = {}
        for part in self._fleet.ask("pattern_counts", regex, self.condition(where)).values():
            counts.update(part)
        return counts

    def texts(self, content_ids: Sequence[int] | Ids) -> dict[int, str]:
        """Return the stored texts by content id, in the order asked for."""
        wanted = np.asarray(content_ids, dtype=np.int64)
        found: dict[int, str] = {}
        with self._fleet.reading() as session:
            for part, texts in self._fleet.ask("texts_of", wanted).items():
                found.update(texts)
                session.home.update(dict.fromkeys(texts, part))
        return {one: found[one] for one in dict.fromkeys(wanted.tolist()) if one in found}

    def expand(self, content_ids: Sequence[int] | Ids, where: Filter | None = None) -> Mapping[int, list[Document]]:
        """Return the documents of each content sorted by id, and fetch along the vectors in the views searched."""
        with self._fleet.reading() as session:
            condition = self.condition(where)
            asked = at_home(session, np.asarray(content_ids, dtype=np.int64).tolist())
            keys = list(dict.fromkeys(session.searched))
            found: dict[int, list[Document]] = {}
            answers = self._fleet.ask_each("expand", {part: (ids, condition, keys) for part, ids in asked.items()})
            for answer in answers.values():
                one: Expanded = answer
                found.update(one.documents)
                for key, stored in one.vectors.items():
                    remember_vectors(session, key, stored)
            return found

    def lexical(self, query: str, k: int, where: Filter | None = None) -> list[LexicalHit]:
        """Return the k texts that share words with the query, as `store.documents.Documents.lexical` does."""
        if not phrases(query) or k < 1:
            return []
        with self._fleet.reading() as session:
            condition, counts = self.condition(where), self._counts(query)
            found: list[RankedText] = []
            for part, (ranked,) in self._fleet.ask("ranked_by_words", [query], k, condition, [counts]).items():
                found += ranked
                session.home.update(dict.fromkeys((one.content_id for one in ranked), part))
            found.sort(key=lambda one: (-one.score, one.first))
            session.wanted += [one.content_id for one in found[:k]]
            return [LexicalHit(one.content_id, one.score) for one in found[:k]]

    def _counts(self, query: str) -> WordCounts:
        """Return what BM25 has to know of the whole corpus; of shards that are left out, what was known last."""
        with self._fleet.reading() as session:
            versions = {part: state.version for part, state in session.states.items() if part not in session.left_out}
            known: dict[int, WordCounts] | None = self._fleet.remembered.get(("words", query))
            at = self._fleet.remembered.get(("words at", query))
            if known is None or at != versions:
                fresh = {part: found[0] for part, found in self._fleet.ask("word_counts", [query]).items()}
                known = (known or {}) | fresh
                self._fleet.keep(("words", query), known)
                self._fleet.keep(("words at", query), versions)
            every = list(known.values())
            return sum(every[1:], start=every[0])


class ShardedVectors:
    """The vectors of all shards; see `store.vectors.Vectors`."""

    def __init__(self, fleet: Fleet, ids: ViewIds) -> None:
        self._fleet = fleet
        self._ids = ids

    def get(self, view_id: int, content_ids: Sequence[int] | Ids) -> StoredVectors:
        """Return the vectors that exist among the contents asked for, in that order, each once."""
        key = self._ids.key(view_id)
        ids = list(dict.fromkeys(np.asarray(content_ids, dtype=np.int64).tolist()))
        with self._fleet.reading() as session:
            known = session.vectors.setdefault(key, {})
            asked = at_home(session, [one for one in ids if one not in known])
            for part, found in self._fleet.ask_each(
                "vectors_of", {part: (key, wanted) for part, wanted in asked.items()}
            ).items():
                remember_vectors(session, key, found)
                session.home.update(dict.fromkeys(found.content_ids.tolist(), part))
            there = [one for one in ids if one in known]
            rows = [known[one][0] for one in there]
            embeddings = np.stack(rows) if rows else np.empty((0, key.dim), np.float32)
            return StoredVectors(np.array(there, dtype=np.int64), embeddings, [known[one][1] for one in there])

    def newest(self, view_id: int, count: int) -> Ids:
        """Return the contents of the view's last vectors, at most ``count``, the last first."""
        found = list(self._fleet.ask("newest", self._ids.key(view_id), count).values())
        contents = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in found)])
        vectors = np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in found)])
        return contents[np.argsort(-vectors, kind="stable")[:count]]

    def parts(self, key: ViewKey) -> dict[int, PartOfView]:
        """Return what every shard holds of a view; of shards that are left out, what was known last."""
        with self._fleet.reading() as session:
            known: dict[int, tuple[int, PartOfView]] = dict(self._fleet.remembered.get(("parts", key)) or {})
            asked = [
                part
                for part, state in session.states.items()
                if part not in session.left_out and (part not in known or known[part][0] != state.version)
            ]
            fresh = self._fleet.ask_each("part_of_view", dict.fromkeys(asked, (key,)))
            known |= {part: (session.states[part].version, found) for part, found in fresh.items()}
            if fresh:
                self._fleet.keep(("parts", key), known)
            return {part: found for part, (_, found) in known.items()}

    def revision(self, view_id: int) -> VectorRevision:
        """Return a value that tells a view's vectors from earlier and later ones."""
        parts = [one.revision for one in self.parts(self._ids.key(view_id)).values()] or [NOTHING.revision]
        return VectorRevision(max(one.last for one in parts), sum(one.removals for one in parts))

    def count(self, view_id: int) -> int:
        """Return the number of vectors in the view."""
        return sum(one.vectors for one in self.parts(self._ids.key(view_id)).values())

    def last_id(self, view_id: int) -> int:
        """Return the view's largest vector id."""
        return self.revision(view_id).last

    def content_ids(self, view_id: int, *, through: int) -> Ids:
        """Return the contents of all vectors of the view, ascending; ``through`` is taken to be the last."""
        return joined(list(self._fleet.ask("content_runs", self._ids.key(view_id)).values()))


class ShardedViewTable:
    """The views of all shards by their keys, to be read."""

    def __init__(self, fleet: Fleet, ids: ViewIds) -> None:
        self._fleet = fleet
        self._ids = ids

    def all(self) -> list[View]:
        """Return every view, oldest first."""
        found: dict[ViewKey, list[View]] = {}
        for _, state in sorted(self._fleet.states.items()):
            for view in state.views:
                found.setdefault(view.key, []).append(view)
        return sorted((self._ids.view(key, views) for key, views in found.items()), key=lambda one: one.view_id)

    def find(self, key: ViewKey) -> View | None:
        """Return the view of this key, or None."""
        states = sorted(self._fleet.states.items())
        found = [view for _, state in states for view in state.views if view.key == key]
        return self._ids.view(key, found) if found else None


class ShardedSimilarities:
    """The distributions of all views, kept in the manifest; see `store.similarities`."""

    def __init__(self, fleet: Fleet, ids: ViewIds) -> None:
        self._fleet = fleet
        self._ids = ids

    def get(self, view_id: int) -> Similarities | None:
        """Return a view's distribution, or None where there is none."""
        known = self._fleet.manifest.of(self._ids.key(view_id))
        return None if known is None else known.similarities

    def put(self, view_id: int, found: Similarities) -> None:
        """Store a view's distribution in place of the one before."""
        self._fleet.manifest = self._fleet.manifest.with_similarities(self._ids.key(view_id), found)
        self._fleet.manifest.write(self._fleet.folder)


def at_home(session: Session, content_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the contents to ask of each shard: of the one that has it where that is known, else of all."""
    asked: dict[int, list[int]] = {}
    for one in content_ids:
        home = session.home.get(one)
        for part in session.states if home is None else (home,):
            asked.setdefault(part, []).append(one)
    return asked


def remember_vectors(session: Session, key: ViewKey, stored: StoredVectors) -> None:
    """Keep vectors for the rest of a session."""
    known = session.vectors.setdefault(key, {})
    for content_id, row, words in zip(stored.content_ids.tolist(), stored.embeddings, stored.words, strict=True):
        known[content_id] = (row, words)
