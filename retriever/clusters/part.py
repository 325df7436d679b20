"""`index.clusterings`: documents in clusters and categories, saved under a name, and edited by people."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retriever.clusters.budget import BUDGET, Read
from retriever.core.errors import EncoderMismatchError, InputError, UsageError
from retriever.core.results import OnIndexing
from retriever.index.completing import complete, complete_with, lacking
from retriever.index.filtering import request_filter
from retriever.index.opened import Opened
from retriever.index.selection import nothing_matches, selected_contents
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.index.teaching.answering import choose_reader
from retriever.index.verdicts.stored import stored_verdict

if TYPE_CHECKING:
    from retriever.clusters.categories import Category
    from retriever.clusters.classifying import ClassifyRequest
    from retriever.clusters.clustering import Clustering, ClusterRequest
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.clusters.edits import Edit
    from retriever.clusters.proposing import Proposal
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

        condition = request_filter(self._opened.store, where, *instructions)
        return self.of(
            [ClusterRequest(instruction, k, condition, read=read) for instruction in instructions], progress=progress
        )

    def of(self, requests: "Sequence[ClusterRequest]", *, progress: OnIndexing | None = None) -> "list[Clustering]":
        """Return the clusterings of requests that differ in their instruction alone; errors as for `each`."""
        from retriever.clusters.computing import check, check_fields, cluster
        from retriever.clusters.reading import read_sample

        opened, instructions, first = self._opened, [each.instruction or "" for each in requests], requests[0]
        check_fields(opened.store, first)
        faults = [
            read_sample(opened, each.instruction or "", each.where, each.ids, each.read, progress) for each in requests
        ]
        unread = lacking(opened, instructions, first.where, first.ids)
        if len(unread):
            check(opened.store, first)
        part = first.where is not None or first.ids is not None
        served = complete_with(opened, instructions, unread, part=part, progress=progress)
        made = []
        for shown, each, fault in zip(served, requests, faults, strict=True):
            learned = list(shown.lessons().answers) if isinstance(shown, Taught) else []
            found = self._with_standing(cluster(opened.store, shown, each, learned), shown, fault)
            made.append(self._with_resemblance(found))
        return made

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

    def classify(
        self,
        instruction: str,
        into: "Sequence[str | Category]",
        *,
        several: bool = False,
        where: str | None = None,
        read: Read = BUDGET,
        progress: OnIndexing | None = None,
    ) -> "Clustering":
        """Put every document to the category that answers an instruction best, or to none of them.

        What the instruction's view lacks is embedded first. Where examples taught the instruction, categories go by
        what they taught. Where a language model serves it, that is asked which category a text belongs to, of a sample,
        and ``other`` and ``not said`` are categories besides.

        Examples of a category are those that it names, which are kept as answers of a person, and the documents to
        which a person or a program gave its name as the answer. A language model's categories leave them where they
        belong.

        Args:
            instruction: what the categories are answers to.
            into: two or more categories, or their names.
            several: whether a document may belong to several; open answers are compared with the names then, whoever
                gave them.
            where: a filter over metadata, and over the answers to the instruction that are known.
            read: texts that a language model reads, where one serves the instruction; the rest is estimated.
            progress: called with the growing report while the view is completed.

        Raises:
            UsageError: there is no instruction, the categories cannot be told apart, or they are too long to be asked.
            InputError: the filter matches nothing, a language model answered nothing, an example is not there, or equal
                texts are examples of two categories.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        from retriever.clusters.categories import Category, checked, question_of
        from retriever.clusters.classifying import ClassifyRequest, classify
        from retriever.clusters.given import keep_examples
        from retriever.clusters.reading import read_by_model, read_sample

        question, opened = question_of(instruction), self._opened
        categories = checked(
            category if isinstance(category, Category) else Category(category.strip()) for category in into
        )
        keep_examples(opened, question, categories)
        request = ClassifyRequest(question, categories, several, request_filter(opened.store, where, question))
        shown = opened.sources.active(question)
        if not several and shown is not None and read_by_model(opened, shown):
            return self._sorted_by_model(request, shown.name, read, progress)
        fault = read_sample(opened, question, request.where, None, read, progress)
        shown = complete(opened, [question], request.where, progress=progress)[0]
        return self._with_standing(classify(opened, shown, request), shown, fault)

    def _sorted_by_model(
        self, request: "ClassifyRequest", reader: str, read: Read, progress: OnIndexing | None
    ) -> "Clustering":
        """Put documents to the categories that a language model chooses for them, asked a closed question."""
        from retriever.clusters.categories import closed_question
        from retriever.clusters.classifying import sorted_by_answers
        from retriever.clusters.reading import read_sample

        opened, question = self._opened, closed_question(request.instruction, request.categories)
        if not len(selected_contents(opened.store, request.where, None)):
            raise nothing_matches(opened.store, request.where)
        known = opened.sources.active(question)
        if known is None or known.name != reader:
            choose_reader(opened, question, reader)
        fault = read_sample(opened, question, request.where, None, read, progress)
        shown = complete(opened, [question], request.where, progress=progress)[0]
        return self._with_standing(sorted_by_answers(opened, shown, request), shown, fault)

    def propose(self, instruction: str, *, where: str | None = None, progress: OnIndexing | None = None) -> "Proposal":
        """Offer at most twelve categories for `classify`, made of the answers in words that texts have.

        Where fewer than thirty texts are answered, a language model that serves the instruction reads a sample of
        thirty. Behind a chat endpoint it writes the categories too, in a call more; else they are groups of answers.

        Args:
            instruction: what the categories are answers to.
            where: a filter over metadata, and over the answers to the instruction that are known.
            progress: called with the growing report while texts are read.

        Raises:
            UsageError: there is no instruction, or nobody answers it in words.
            InputError: the filter matches nothing, or the answers do not come to two categories.
            FilterError: the filter cannot be parsed or names an unknown field.
            ConsentError: texts or answers would be sent to a host that nobody allowed.
        """
        from retriever.clusters.categories import question_of
        from retriever.clusters.proposing import TEXTS, propose, write_categories
        from retriever.clusters.reading import read_sample

        question, opened = question_of(instruction), self._opened
        condition = request_filter(opened.store, where, question)
        shown = opened.sources.active(question)
        if shown is None or not shown.in_words:
            raise UsageError(
                f"Nobody answers {question!r} in words.", hint="Name a language model that does: --reader chat:MODEL."
            )
        population = selected_contents(opened.store, condition, None)
        if not len(population):
            raise nothing_matches(opened.store, condition)
        held, fault = shown.contents(opened.sources.held), ""
        if held is None or len(np.intersect1d(held, population)) < TEXTS:
            fault = read_sample(opened, question, condition, None, TEXTS, progress)
        shown = complete(opened, [question], condition, progress=progress)[0]
        stored = opened.store.vectors.get(shown.view_id, population)
        answers = [words[0] for words in stored.words]
        reader = shown.name
        written = write_categories(opened, reader, shown.instruction, answers)
        proposal = propose(shown.instruction, reader, answers, stored.embeddings, written)
        fault = " ".join(dict.fromkeys(filter(None, [fault, proposal.fault])))
        return replace(proposal, fault=fault, known_answers=None if condition is None else condition.known)

    def save(self, name: str, found: "Clustering") -> None:
        """Save clusters or categories under a new name; later documents go to them.

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
        Titles by a language model are one change. It is asked before the index is locked.

        Args:
            name: of the clustering.
            edits: what to change.
            author: who changes it; empty for who is logged in.
            progress: called while documents that came since are embedded, and while a language model gives titles.

        Raises:
            UsageError: a cluster is not there, a name is taken, or a cluster cannot be split so, or given a title.
            InputError: there is no such clustering, or a document is not there.
            ConsentError: texts would be sent to a host that nobody allowed.
            EncoderError: a language model cannot be asked, or gave no title.
        """
        from retriever.clusters.edit_requests import changes, usual_author
        from retriever.clusters.edits import change_json
        from retriever.clusters.given import keep_moves
        from retriever.clusters.titles import make_titles

        opened, saved = self._opened, self._kept(name)
        shown = self._completed(saved, progress)
        titles = [make_titles(opened, self._shown(saved, shown), edits.name_by, progress)] if edits.name_by else []
        with opened.writing("edit"):  # nobody else edits meanwhile; a longer transaction would hold up searches
            made = titles or changes(self._shown(saved, shown), edits)
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
                raise InputError(f"There is no change of {name!r} to undo.", hint="--history lists what was changed.")
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
        return next(iter(self._views_of(saved)), served)

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
        return replace(clustering, lessons=lessons, verdict=verdict, sampled=sample, examples=examples)

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

        request, clusters = clustering.request, [cluster.number for cluster in clustering.clusters]
        population = Population.selected(self._opened.store, request.where, request.ids)
        return sampled(self._opened, shown, population, clustering.material, clustering.assignments, clusters)
