"""An index whose views are filled: with new documents, or with what they lack."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from retriever.core.results import IndexingReport
from retriever.core.types import BadRow, Document, Ids
from retriever.core.verdicts import Verdict
from retriever.index.encoding import OnTexts
from retriever.index.generations import IndexType, build_outgrown, remember
from retriever.index.indexing import Indexer, IndexingOptions, OnIndexing
from retriever.index.open_index import OpenIndex
from retriever.index.selection import nothing_matches, selected_contents
from retriever.index.status import own_views
from retriever.index.verdicts.judging import judge_view, wants_judging
from retriever.index.verdicts.stored import stored_verdict
from retriever.store.filters import optional_filter
from retriever.store.views import View


class FilledIndex(OpenIndex):
    """An index (`retriever.workspace.Index`) that vectors are written into: documents come in, views are completed."""

    def add(
        self,
        documents: Iterable[Document | BadRow],
        *,
        instructions: Sequence[str] = (),
        options: IndexingOptions | None = None,
        index_type: IndexType | None = None,
        progress: OnIndexing | None = None,
    ) -> IndexingReport:
        """Insert or update documents by id, embedding what views lack, under every instruction at once.

        Filled are the base view, the views of the instructions, and every view that was asked for before; lazy ones,
        which searches fill, are left. Whatever interrupts the run, whole shards stay, and the same call goes on from
        there.

        Args:
            documents: documents, and bad rows to put in quarantine. They are read in the caller's thread.
            instructions: further views to complete.
            options: what to do with long texts, whether to delete what is gone, what to embed and how.
            index_type: the vector index to build from now on; None for what the index remembers.
            progress: called with the growing report.

        Raises:
            IndexLockedError: another process writes to this index.
            EncoderMismatchError: the index was made with another encoder.
            UsageError: the index holds documents, embedded in other units.
        """
        with self._writing("index") as run_id:
            readers = self.readers
            remember(self.store, index_type, self.path, readers.dims())
            self.store.units.choose(None if options is None else options.units)
            wanted = [view.key.instruction for view in own_views(self.store) if not view.lazy]
            indexer = Indexer(self.store, readers, [*instructions, *wanted], options=options, progress=progress)
            report = indexer.run(documents, run_id)
            build_outgrown(self.store, indexer.views, self.path, self._device)
            self.store.runs.progress(run_id, report.to_json())
        self._judge(indexer.views, progress)
        return report

    def complete(
        self,
        instructions: Sequence[str],
        *,
        where: str | None = None,
        ids: Collection[str] | None = None,
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
    ) -> list[View]:
        """Embed what the views of some instructions lack, all in one pass, and return the views.

        Nothing but their use is noted where nothing is lacking. Whatever interrupts it, whole shards stay. Completed
        for a part of the documents, a view stays lazy.

        Args:
            instructions: of the views.
            where: complete them for the documents that this filter over metadata accepts.
            ids: complete them for these documents; None for all.
            options: how to embed.
            progress: called with the growing report, which counts texts.

        Raises:
            InputError: one of the views is not there yet, and there is no document or none matches.
            UsageError: an instruction is too long.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        part = optional_filter(where) is not None or ids is not None
        lacking = self.lacking(instructions, where=where, ids=ids)
        return self._completed(instructions, lacking, part=part, options=options, progress=progress)

    def _completed(
        self,
        instructions: Sequence[str],
        lacking: Ids,
        *,
        part: bool,
        options: IndexingOptions | None = None,
        progress: OnIndexing | None,
    ) -> list[View]:
        """Embed texts that views of some instructions lack, of a part of the documents or of all; return the views."""
        if len(lacking):
            with self._writing("complete") as run_id:
                indexer = Indexer(self.store, self.readers, instructions, options=options, progress=progress, lazy=part)
                indexer.fill(run_id, lacking)
                build_outgrown(self.store, indexer.views, self.path, self._device)
                self.store.runs.progress(run_id, indexer.report.to_json())
        keys = [self.readers.view_key(one) for one in instructions]
        if any(self.store.views.find(key) is None for key in keys):
            raise nothing_matches(self.store)  # a view made now would be empty, its instruction unread
        views = [self.store.views.ensure(key, lazy=part) for key in keys]
        self._open_views.note_use(view.view_id for view in views)
        self._judge(views, progress)
        return views

    def verdict(self, instruction: str) -> Verdict | None:
        """Return whether the model follows an instruction, as it was found; None where nobody has looked yet."""
        view = self._view_of(instruction)
        return None if view is None else stored_verdict(self.store, view.view_id)

    def wants_verdict(self, instruction: str) -> bool:
        """Whether an instruction's view holds enough to tell if it is followed, and nobody has looked yet."""
        view = self._view_of(instruction)
        return view is not None and wants_judging(self.store, view)

    def judge(self, instruction: str, *, progress: OnIndexing | None = None) -> Verdict | None:
        """Find out whether the model follows an instruction, by a sample of what its view holds, and store it.

        What is stored already is returned, unless the view has much grown since. Else some of its texts are read again
        under other questions, which takes seconds.

        Args:
            instruction: of the view.
            progress: called with a report whose ``in_hand`` and ``expected`` are texts; what it raises ends this.

        Returns:
            The verdict; None of the base view, and of a view that holds too few texts.
        """
        view = self._view_of(instruction)
        if view is None:
            return None
        return self._judge([view], progress).get(view.view_id) or stored_verdict(self.store, view.view_id)

    def _view_of(self, instruction: str) -> View | None:
        """Return the view of a question, found without a model; None of the base view, and where there is none.

        A question that was taught has none here: what it was taught says how far that is followed.
        """
        asked, taught = instruction.strip(), set(self.store.heads.sources().values())
        found = (one for one in own_views(self.store) if one.key.instruction == asked and one.view_id not in taught)
        return next(found, None) if asked else None

    def _judge(self, views: Iterable[View], progress: OnIndexing | None) -> dict[int, Verdict]:
        """Judge the views that want it: those of a question that hold enough for a verdict they do not have."""
        found = {}
        for view in (one for one in views if wants_judging(self.store, one)):
            report = IndexingReport(views=[view.view_id], instructions=[view.key.instruction], judging=True)
            verdict = judge_view(self.store, self.readers, view, on_texts=_texts_told(report, progress))
            if verdict is not None:
                found[view.view_id] = verdict
        return found

    def lacking(
        self, instructions: Sequence[str], *, where: str | None = None, ids: Collection[str] | None = None
    ) -> Ids:
        """Return the content ids of the texts that one of the views of some instructions lacks, ascending.

        Args:
            instructions: of the views.
            where: look at the documents that this filter over metadata accepts.
            ids: look at these documents; None for all.
        """
        contents = selected_contents(self.store, optional_filter(where), ids)
        views = [self.store.views.find(self.readers.view_key(one)) for one in instructions]
        found = [contents if one is None else self.store.vectors.missing(one.view_id, contents) for one in views]
        return np.unique(np.concatenate(found)).astype(np.int64)


def _texts_told(report: IndexingReport, progress: OnIndexing | None) -> OnTexts | None:
    """Return what tells progress how many texts were read, by a report that grows."""
    if progress is None:
        return None

    def told(done: int, texts: int) -> None:
        report.in_hand, report.expected = done, texts
        progress(report)

    return told
