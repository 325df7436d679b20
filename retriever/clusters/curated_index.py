"""An index whose documents go to categories, whose saved clusterings people edit, and whose hits they mark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retriever.core.errors import InputError, UsageError
from retriever.core.types import Marks
from retriever.index.indexing import OnIndexing
from retriever.index.selection import nothing_matches
from retriever.index.status import lessons_of
from retriever.index.taught_index import TaughtIndex
from retriever.store.filters import optional_filter
from retriever.store.views import View

if TYPE_CHECKING:
    from retriever.clusters.categories import Category
    from retriever.clusters.classifying import Classification
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.clusters.material import Material
    from retriever.clusters.saved import SavedClustering
    from retriever.core.types import Embeddings
    from retriever.store.clusterings import StoredClustering
    from retriever.store.edits import Edit


class CuratedIndex(TaughtIndex):
    """An index (`retriever.workspace.Index`) with what people say about its documents."""

    def classify(
        self,
        instruction: str,
        into: "Sequence[str | Category]",
        *,
        several: bool = False,
        where: str | None = None,
        progress: OnIndexing | None = None,
    ) -> "Classification":
        """Put every document to the category that answers an instruction best, or to none of them.

        What the instruction's view lacks is embedded first. Where examples taught the instruction, categories go by
        what they taught.

        Args:
            instruction: what the categories are answers to.
            into: two or more categories, or their names.
            several: whether a document may belong to several.
            where: a filter over metadata.
            progress: called with the growing report while the view is completed.

        Raises:
            UsageError: there is no instruction, or the categories cannot be told apart.
            InputError: the filter matches nothing, or an example is not there.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        from retriever.clusters.categories import Category, checked
        from retriever.clusters.classifying import (
            FLOOR,
            NO_FLOOR,
            ClassifyRequest,
            Plain,
            all_taught,
            classify,
            read_of,
            taught_names,
        )
        from retriever.clusters.material import read_material

        asked = instruction.strip()
        if not asked:
            raise UsageError("Categories are answers to a question.", hint='Say it: --instruction "What is wrong?"')
        categories = checked(one if isinstance(one, Category) else Category(one.strip()) for one in into)
        self._require_examples(categories)
        view = self.complete([asked], where=where, progress=progress)[0]
        request = ClassifyRequest(asked, categories, several, where)
        condition = optional_filter(where)
        with self.store.snapshot():
            taught = self._open_views.taught.of(view)
            shown = view if taught is None else taught.view
            material = read_material(self.store, shown, condition)
            read = self._read_plainly([one.id for one in material.documents])
            lessons = lessons_of(self.store, view)
        if not material.documents:
            raise nothing_matches(self.store)
        said = [read_of(one) for one in categories]
        names = self.readers.question.encode(said, instruction=asked)
        floor = FLOOR
        if taught is not None:
            names = taught_names(taught.head, categories, names, taught.reader(self.readers).encode(said))
            floor = NO_FLOOR if all_taught(taught.head, categories) else FLOOR
        plain = None if read is None else Plain(read, self.readers.base.encode([one.name for one in categories]))
        found = classify(material, shown.view_id, request, names, plain, floor=floor)
        return replace(found, lessons=lessons, verdict=self.verdict(asked))

    def save_classification(self, name: str, found: "Classification") -> None:
        """Save a classification under a new name, as a clustering is; later documents go to its categories.

        Raises:
            UsageError: the name is empty or taken.
        """
        from retriever.clusters.classifying import save

        with self._writing("save"), self.store.transaction():
            save(self.store, name, found, self._fingerprint_in(found.view))

    def saved_clustering(self, name: str, *, progress: OnIndexing | None = None) -> "SavedClustering":
        """Return a saved clustering or classification; documents indexed since are embedded and put to their cluster.

        Where it is of a filter, only documents that this accepts are. What people changed is changed.

        Raises:
            InputError: there is none of that name.
            IndexDamagedError: it is damaged.
            EncoderMismatchError: the index has another encoder by now, or the question was taught or forgotten since.
        """
        return self._shown(*self._stored(name, progress))

    def edit_clustering(
        self,
        name: str,
        edits: "ClusterEdits",
        *,
        author: str = "",
        progress: OnIndexing | None = None,
    ) -> "SavedClustering":
        """Change a saved clustering: all of the edits or none; return it as it is then.

        Args:
            name: of the clustering.
            edits: what to change.
            author: who changes it; empty for who is logged in.
            progress: called while documents that came since are embedded.

        Raises:
            UsageError: a cluster is not there, a name is taken, or a cluster cannot be split so.
            InputError: there is no such clustering, or a document is not there.
        """
        from retriever.clusters.edit_requests import changes, usual_author

        stored, view = self._stored(name, progress)
        with self._writing("edit"), self.store.transaction():
            made = changes(self._shown(stored, view), edits)
            self.store.edits.add(name, made, author or usual_author())
        return self._shown(stored, view)

    def undo_edit(self, name: str) -> "Edit":
        """Take back the last change of a saved clustering that holds, and return it.

        Raises:
            InputError: there is no such clustering, or no change that holds.
        """
        self.store.clusterings.get(name)
        with self._writing("undo"), self.store.transaction():
            undone = self.store.edits.undo(name)
        if undone is None:
            raise InputError(f"Nothing in {name!r} is left to take back.", hint="--history lists what was changed.")
        return undone

    def history(self, name: str) -> "list[Edit]":
        """Return the changes of a saved clustering in the order they were made, those taken back too."""
        return self.store.edits.all(name)

    def marks(self, query: str, instruction: str = "") -> Marks:
        """Return the ids of the hits that are marked under a query and an instruction."""
        return self.store.marks.get(query.strip(), instruction.strip())

    def mark(self, query: str, instruction: str = "", *, liked: Mapping[str, bool | None]) -> Marks:
        """Mark hits of a query under an instruction, and return all that are marked then.

        Args:
            query: the query.
            instruction: what it was asked under.
            liked: by document id, whether more like it is wanted (true) or less (false); None takes a mark away.

        Raises:
            InputError: a document is not there.
        """
        self.require_documents([id for id, one in liked.items() if one is not None])
        with self._writing("mark"), self.store.transaction():
            self.store.marks.put(query.strip(), instruction.strip(), liked)
        return self.marks(query, instruction)

    def require_documents(self, ids: Sequence[str]) -> None:
        """Refuse ids of which there is no document.

        Raises:
            InputError: the first of them is named.
        """
        there = self.documents(ids)
        for id in ids:
            if id not in there:
                raise InputError(f"There is no document {id!r}.", hint="Ids are those of the corpus.")

    def _require_examples(self, categories: "Sequence[Category]") -> None:
        self.require_documents([id for one in categories for id in one.examples])

    def _stored(self, name: str, progress: OnIndexing | None) -> "tuple[StoredClustering, View]":
        """Return a clustering as it was saved, and its view, completed."""
        from retriever.clusters.saved import stored_clustering

        stored = stored_clustering(self.store, name, self._fingerprint_of(name))
        instruction, where = stored.document["instruction"], stored.document["where"]
        return stored, self.complete([instruction], where=where, progress=progress)[0]

    def _shown(self, stored: "StoredClustering", view: View) -> "SavedClustering":
        from retriever.clusters.saved import Place, shown_again

        place: Place | None = None
        if stored.document.get("kind") is not None:
            from retriever.clusters import classifying

            def place(stored: "StoredClustering", material: "Material", rows: Sequence[int]) -> list[tuple[int, ...]]:
                plain = self._read_plainly([material.documents[row].id for row in rows]) if rows else None
                return classifying.place(stored, material, rows, plain)

        untaught = stored.fingerprint == view.key.fingerprint
        return shown_again(self.store, view if untaught else self.shown(view), stored, place)

    def _fingerprint_of(self, name: str) -> "Callable[[str], str]":
        """Return what tells the fingerprint of the view that a saved clustering has to be of.

        Categories that were made before their question was taught stay in the untaught view.
        """
        stored = self.store.clusterings.get(name)
        untaught = self.readers.view_key(stored.document["instruction"]).fingerprint
        if stored.document.get("kind") is not None and stored.fingerprint == untaught:
            return lambda asked: untaught
        return self._shown_fingerprint

    def _fingerprint_in(self, view_id: int) -> str:
        """Return the fingerprint of a view.

        Raises:
            InputError: it is gone.
        """
        found = next((one for one in self.store.views.all() if one.view_id == view_id), None)
        if found is None:
            raise InputError("The view was dropped, taught or forgotten meanwhile.", hint="Sort the documents again.")
        return found.key.fingerprint

    def _read_plainly(self, ids: Sequence[str]) -> "Embeddings | None":
        """Return what the plain reader says of documents (n, d), in their order; None where there is none."""
        from retriever.clusters.material import read_material

        base = self.store.views.find(self.readers.view_key("")) if self.readers.two else None
        if base is None:
            return None
        read = read_material(self.store, base)
        rows = {one.id: row for row, one in enumerate(read.documents)}
        return read.vectors[[rows[id] for id in ids]]
