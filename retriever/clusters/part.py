"""`index.clusterings`: documents in clusters and categories, saved under a name, and edited by people."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from retriever.clusters.budget import BUDGET, Read
from retriever.core.arguments import require
from retriever.core.errors import ConsentError, EncoderError, EncoderMismatchError, FilterError, InputError, UsageError
from retriever.core.results import OnIndexing
from retriever.index.completing import complete, complete_with, lacking
from retriever.index.filtering import request_filter
from retriever.index.opened import Opened
from retriever.index.profiling import read_columns
from retriever.index.sources.filling import catch_up
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.index.verdicts.stored import stored_verdict

if TYPE_CHECKING:
    from retriever.clusters.clustering import Cluster, Clustering, ClusterRequest
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.clusters.edits import Edit
    from retriever.clusters.reading import Sampled
    from retriever.clusters.saved import Kept, SavedClustering

Found = TypeVar("Found", bound="Clustering")

_COMPARED = 12  # views that clusters of a doubtful question are compared with


class Clusterings:
    """The part of an index (`retriever.workspace.Index`) that puts documents into clusters and categories.

    Args:
        opened: the index.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def each(
        self,
        instructions: Sequence[str | None],
        *,
        k: int | None = None,
        where: str | None = None,
        read: Read = BUDGET,
        progress: OnIndexing | None = None,
    ) -> "list[Clustering]":
        """Return one clustering of the same documents per instruction; what the views lack is embedded in one pass.

        Arguments and errors are those of `retriever.workspace.Index.cluster`; there are one or more instructions.
        """
        from retriever.clusters.clustering import ClusterRequest

        require(Sequence[str | None], instructions=instructions)
        condition = request_filter(self._opened.store, where, *instructions)
        return self.of(
            [ClusterRequest(instruction, k, condition, read=read) for instruction in instructions], progress=progress
        )

    def of(self, requests: "Sequence[ClusterRequest]", *, progress: OnIndexing | None = None) -> "list[Clustering]":
        """Return the clusterings of requests that differ in their instruction alone; errors as for `each`.

        Several categories a text are refused where the instruction is answered in words. Examples of categories are
        kept as answers of a person to the instruction.
        """
        from retriever.clusters.computing import check, check_fields, cluster
        from retriever.clusters.given import keep_examples
        from retriever.clusters.reading import read_sample

        opened, instructions, first = self._opened, [each.instruction or "" for each in requests], requests[0]
        check_fields(opened.store, first)
        shown = opened.sources.active(instructions[0]) if first.several else None
        if shown is not None and shown.in_words:
            raise UsageError(
                f"{instructions[0]!r} is answered in words: a text has one answer, and so one category.",
                hint="Leave --several out, or let the encoder read: --reader default.",
            )
        if any(category.examples for category in first.into):
            keep_examples(opened, instructions[0], first.into)
        faults = [
            read_sample(opened, each.instruction or "", each.where, each.ids, each.read, progress) for each in requests
        ]
        unread = lacking(opened, instructions, first.where, first.ids)
        if len(unread):
            check(opened.store, first)
        part = first.where is not None or first.ids is not None
        served = complete_with(opened, instructions, unread, part=part, progress=progress)
        return [
            self._with_resemblance(self._with_standing(cluster(opened, shown, each), shown, fault))
            for shown, each, fault in zip(served, requests, faults, strict=True)
        ]

    def still_holds(self, found: "Clustering") -> bool:
        """Whether a clustering is of all documents there are to cluster, unchanged, and of the view that is shown.

        Where a language model serves the question, of all that were read.
        """
        from retriever.clusters.computing import still_holds

        store, where = self._opened.store, found.request.where
        shown = self._opened.known_sources.active(found.question)
        if shown is None or shown.view_id != found.view:
            return False
        if where is not None:  # answers may have come
            where = request_filter(store, where.expression, found.request.instruction)
        return still_holds(store, shown, replace(found, request=replace(found.request, where=where)))

    def save(self, name: str, found: "Clustering") -> None:
        """Save groups under a new name; later documents go to them.

        Raises:
            UsageError: the name is empty or taken, or the clustering is of chosen documents.
            InputError: the view is gone.
        """
        from retriever.clusters.saved import save

        opened = self._opened
        with opened.writing("save"), opened.store.transaction():
            view = next((stored for stored in opened.store.views.all() if stored.view_id == found.view), None)
            if view is None:
                raise InputError("The view was dropped, taught or forgotten meanwhile.", hint="Make the clusters anew.")
            save(opened.store, name, found, view.key.fingerprint)

    def names(self) -> list[str]:
        """Return the names of what is saved."""
        return self._opened.store.clusterings.names()

    def check_name(self, name: str) -> None:
        """Refuse a name that nothing can be saved under.

        Raises:
            UsageError: it is empty or taken.
        """
        self._opened.store.clusterings.check_name(name)

    def get(self, name: str, *, progress: OnIndexing | None = None) -> "SavedClustering":
        """Return saved clusters or categories; documents indexed since are embedded and put to their cluster.

        Where it is of a filter, only documents that this accepts are. What people changed is changed.

        Raises:
            InputError: there is none of that name.
            IndexDamagedError: it is damaged.
            EncoderMismatchError: the index has another encoder by now, or the question was taught or forgotten since.
        """
        saved = self._kept(name)
        return self._shown(saved, self._completed(saved, progress))

    def groups(self, question: str) -> "dict[str, dict[str, str | list[str]]]":
        """Return the names of the groups of each document by its id, for every saved clustering of a question.

        Documents are placed as by `get`, and one that fits no group is left out. Where a document may have several, in
        an index of sentences too, its groups are a list. What `get` refuses is as it was saved and changed, and later
        documents have no group: made with another encoder, of a filter by answers that nobody gives any more, or
        waiting for an encoder that cannot be asked.
        """
        from retriever.clusters.saved import as_saved

        found: dict[str, dict[str, str | list[str]]] = {}
        for name in self.names():
            stored = self._opened.store.clusterings.get(name)
            if (stored.document["instruction"] or "") != question:
                continue
            try:
                saved: Clustering = self.get(name)
            except (EncoderError, FilterError, ConsentError):
                saved = as_saved(self._opened.store, stored)
            names = {cluster.number: cluster.label for cluster in saved.clusters}
            labels = {id: [names[each] for each in there if each in names] for id, there in saved.topics.items()}
            single = not saved.several and saved.material.units is None
            found[name] = {id: each[0] if single else each for id, each in labels.items() if each}
        return found

    def edit(
        self,
        name: str,
        edits: "ClusterEdits",
        *,
        author: str = "",
        progress: OnIndexing | None = None,
    ) -> "SavedClustering":
        """Change a saved clustering: all of the edits or none; return it as it is then.

        Who moves a document to a named category answers the question of the categories with its name: that is kept as a
        person's answer, ``none of these`` where it is moved to none. A later name of the category does not change it.

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
        from retriever.clusters.edits import change_json
        from retriever.clusters.given import keep_moves
        from retriever.clusters.saved import shown_again

        opened, saved = self._opened, self._kept(name)
        shown = self._completed(saved, progress)
        with opened.writing("edit"):  # nobody else edits meanwhile; a longer transaction would hold up searches
            made = changes(shown_again(opened, shown, saved), edits)
            with opened.store.transaction():
                made = keep_moves(opened, saved.request.instruction or "", made)
                opened.store.edits.add(name, [change_json(change) for change in made], author or usual_author())
        return self._shown(saved, self._completed(saved, progress))  # answers that were kept are embedded

    def undo(self, name: str) -> "Edit":
        """Take back the last change of a saved clustering that holds, and the answer it gave, and return it.

        Raises:
            InputError: there is no such clustering, or no change that holds.
        """
        from retriever.clusters.edits import Move, edit_of
        from retriever.clusters.given import take_back_move

        store = self._opened.store
        instruction = store.clusterings.get(name).document["instruction"]
        with self._opened.writing("undo"), store.transaction():
            undone = store.edits.undo(name)
            if undone is None:
                raise InputError(
                    f"There is no change of {name!r} to undo.", hint="Every change was undone, or none was made."
                )
            edit = edit_of(undone)
            if isinstance(edit.change, Move) and edit.change.answer:
                take_back_move(self._opened, instruction, edit.change)
        return edit

    def history(self, name: str) -> "list[Edit]":
        """Return the changes of a saved clustering in the order they were made, those taken back too; quick."""
        from retriever.clusters.edits import edit_of

        return [edit_of(edit) for edit in self._opened.store.edits.all(name)]

    def _kept(self, name: str) -> "Kept":
        """Return a clustering as it was saved; errors as for `get`."""
        from retriever.clusters.placing import Centroids
        from retriever.clusters.saved import kept

        opened = self._opened
        saved = kept(opened.store, opened.store.clusterings.get(name))
        shown = opened.sources.of(saved.question).key.fingerprint
        # Categories stay in the view that they were made in, whatever serves their question since.
        stays = not isinstance(saved.placing, Centroids) and self._views_of(saved)
        if saved.fingerprint != shown and not stays:
            raise EncoderMismatchError(
                f"The clustering {name!r} was made with another encoder, or before its question was taught or "
                "forgotten.",
                hint="Cluster again and save it anew.",
            )
        return saved

    def _views_of(self, saved: "Kept") -> list[Source]:
        """Return the view that a clustering was saved of; none where it is gone or another encoder's."""
        candidates = self._opened.sources.candidates(saved.question)
        return [source for source in candidates if source.key.fingerprint == saved.fingerprint]

    def _completed(self, saved: "Kept", progress: OnIndexing | None) -> Source:
        """Return the view of a saved clustering, completed."""
        served = complete(self._opened, [saved.question], saved.request.where, progress=progress)[0]
        own = next(iter(self._views_of(saved)), served)
        if own.in_words:  # answers came, and something else may serve the question by now
            catch_up(self._opened.sources, own)
        return own

    def _shown(self, saved: "Kept", shown: Source) -> "SavedClustering":
        """Return a saved clustering over what its view holds."""
        from retriever.clusters.saved import shown_again

        return self._with_standing(shown_again(self._opened, shown, saved), shown)

    def _with_standing(self, clustering: "Found", shown: Source, fault: str = "") -> "Found":
        """Return a clustering with what is known of its question: what it was taught or its verdict, and its sample.

        Args:
            clustering: it.
            shown: the view that it was made of.
            fault: why no more texts could be read.
        """
        lessons = shown.lessons() if isinstance(shown, Taught) else None
        verdict = None if lessons is not None else stored_verdict(self._opened.store, shown.view_id)
        sample = replace(self._sampled(clustering, shown), fault=fault) if shown.in_words else None
        examples = {} if lessons is None else self._examples(shown)
        clusters = self._with_alerts(clustering)
        return replace(
            clustering, clusters=clusters, lessons=lessons, verdict=verdict, sampled=sample, examples=examples
        )

    def _with_alerts(self, clustering: "Clustering") -> "list[Cluster]":
        """Return the clusters with what ratings and other fields of their documents say against them."""
        from retriever.clusters.contradictions import contradictions

        names = {cluster.number: cluster.label for cluster in clustering.clusters if not cluster.empty}
        stars = read_columns(self).stars or None
        alerts = contradictions(names, clustering.material.documents, clustering.places, stars)
        return [replace(cluster, alert=alerts.get(cluster.number, "")) for cluster in clustering.clusters]

    def _with_resemblance(self, clustering: "Clustering") -> "Clustering":
        """Return clusters of a question that may not be answered with what they are nearly the same as."""
        from retriever.clusters.resemblance import resemblance

        if not clustering.warning:
            return clustering
        others = [
            source
            for source in self._opened.sources.visible()
            if not source.in_words and source.view_id != clustering.view
        ]
        # The texts themselves first, then the questions that are asked now.
        others.sort(key=lambda source: (source.instruction != "", -source.view_id))
        return replace(clustering, resembles=resemblance(self._opened.store, clustering, others[:_COMPARED]))

    def _examples(self, shown: Source) -> dict[str, str]:
        """Return the answers of the documents that a view was taught by, by id."""
        answers = shown.examples if isinstance(shown, Taught) else {}
        groups = self._opened.store.documents.expand(sorted(answers)).items()
        return {document.id: answers[content_id] for content_id, group in groups for document in group}

    def _sampled(self, clustering: "Clustering", shown: Source) -> "Sampled":
        """Return what the texts that a language model read say of all."""
        from retriever.clusters.reading import Population, sampled

        request, clusters = clustering.request, {cluster.number: not cluster.mixed for cluster in clustering.clusters}
        population = Population.selected(self._opened.store, request.where, request.ids)
        return sampled(self._opened, shown, population, clustering.material, clustering.assignments, clusters)
