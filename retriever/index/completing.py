"""Filling the views of an opened index, with new documents or what they lack; views that have grown are judged."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from retriever.core.requests import IndexType
from retriever.core.results import IndexingReport, OnIndexing
from retriever.core.types import BadRow, Document, Ids
from retriever.core.verdicts import Verdict
from retriever.index.dividing import choose
from retriever.index.encoding import OnTexts
from retriever.index.files import Reading
from retriever.index.forecast import counting
from retriever.index.generations import build_outgrown, remember
from retriever.index.indexing import Indexer, IndexingOptions
from retriever.index.languages import settle
from retriever.index.opened import Opened
from retriever.index.selection import nothing_matches, selected_contents
from retriever.index.sources.answers import of_model
from retriever.index.sources.catalog import own_views
from retriever.index.sources.filling import catch_up
from retriever.index.sources.source import Source
from retriever.index.verdicts.judging import judge_view, wants_judging
from retriever.index.verdicts.reading import COMPARED, REFERENCES
from retriever.index.verdicts.stored import stored_verdict
from retriever.store.filters import Filter
from retriever.store.views import View

BATCH = 100
"""Texts that are read under an instruction before they are stored: little is lost where the reading is stopped."""


def add(
    opened: Opened,
    rows: Reading[Document | BadRow],
    instructions: Sequence[str],
    options: IndexingOptions | None,
    index_type: IndexType | None,
    progress: OnIndexing | None,
) -> IndexingReport:
    """Insert or update documents, embedding what views lack; see `retriever.workspace.Index.add`."""
    with opened.writing("index") as run_id:
        store, sources = opened.store, opened.sources
        remember(store, index_type, opened.path, sources.encoders.dims())
        choose(store, None if options is None else options.units)
        kept = [view.key.instruction for view in own_views(store) if not view.lazy]
        wanted = list(dict.fromkeys(map(sources.of, [*instructions, *kept])))
        reading = [source for source in wanted if not source.in_words]  # answers are asked for by name alone
        progress = _sharing(opened, [source.instruction for source in reading], progress)
        indexer = Indexer(store, sources, reading, options=options, progress=progress)
        settled = settle(store, None if options is None else options.language, rows, sources.encoders.plain_name)
        report = indexer.run(settled.rows, run_id)
        report.notes[:0] = settled.notes
        asked = dict.fromkeys(instruction for instruction in instructions if sources.of(instruction).in_words)
        report.notes += [f"{question!r} is answered in words: --read asks about new texts." for question in asked]
        report.reading = rows.notes
        if not report.read:
            report.notes.append("There was no document to add.")
        build_outgrown(store, indexer.views, opened.path, opened.device)
        store.runs.progress(run_id, report.to_json())
    judge_views(opened, indexer.views, progress)
    return report


def lacking(
    opened: Opened, instructions: Sequence[str], where: Filter | None = None, ids: Collection[str] | None = None
) -> Ids:
    """Return the content ids of the texts that `Upkeep.lacking` names, ascending."""
    contents = selected_contents(opened.store, where, ids)
    sources = opened.sources
    missing: list[Sequence[int] | Ids] = [[]]
    for source in sources.with_dependents(map(sources.of, instructions)):
        if source.reads and not source.hidden:
            view = sources.view(source)
            missing.append(contents if view is None else opened.store.vectors.missing(view.view_id, contents))
    return np.unique(np.concatenate(missing)).astype(np.int64)


def complete(
    opened: Opened,
    instructions: Sequence[str],
    where: Filter | None = None,
    ids: Collection[str] | None = None,
    *,
    options: IndexingOptions | None = None,
    progress: OnIndexing | None = None,
) -> list[Source]:
    """Embed what the views of some instructions lack, as `Upkeep.complete` does, and return what serves them."""
    part, wanted = where is not None or ids is not None, lacking(opened, instructions, where, ids)
    return complete_with(opened, instructions, wanted, part=part, options=options, progress=progress)


def complete_with(
    opened: Opened,
    instructions: Sequence[str],
    lacking: Ids,
    *,
    part: bool,
    options: IndexingOptions | None = None,
    progress: OnIndexing | None = None,
) -> list[Source]:
    """Do as `complete` does, given the texts that the views lack, and whether views made now are lazy (``part``)."""
    store, sources = opened.store, opened.sources
    progress = _sharing(opened, instructions, progress)
    if len(lacking):
        with opened.writing("complete") as run_id:
            wanted = [sources.of(instruction) for instruction in instructions]
            wanted = [source for source in wanted if not source.in_words]
            stored_often = options or IndexingOptions(batch=BATCH)
            indexer = Indexer(store, sources, wanted, options=stored_often, progress=progress, lazy=part)
            indexer.fill(run_id, lacking)
            build_outgrown(store, indexer.views, opened.path, opened.device)
            store.runs.progress(run_id, indexer.report.to_json())
    served = []
    for source in map(sources.of, instructions):
        if source.in_words:
            catch_up(sources, source)
        elif sources.view(source.root) is None:
            raise nothing_matches(store)  # a view made now would be empty, its instruction unread
        else:
            store.views.ensure(source.root.key, lazy=part)
        served.append(sources.of(source.instruction))
    opened.views.note_use(source.view_id for source in served)
    judge_views(opened, [source.root.view for source in served if source.root.view], progress)
    return served


def ask(opened: Opened, source: Source, contents: Ids, on_texts: OnTexts | None = None) -> int:
    """Ask a language model about those of some texts that nobody was asked about, and embed the answers.

    Where no language model serves the source, nothing is asked; answers that are stored are embedded.

    Returns:
        How many of the texts, the most wanted first, stay unread because a limit is reached.

    Raises:
        ConsentError, EncoderError: as `Asker.answer`.
    """
    try:
        answers = of_model(source)
        if answers is None or not len(wanted := answers.unasked(contents)):
            return 0
        return opened.asker.answer(answers.by, source.instruction, wanted, opened.budget, on_texts)
    finally:
        catch_up(opened.sources, source)


def _sharing(opened: Opened, instructions: Sequence[str], progress: OnIndexing | None) -> OnIndexing | None:
    """Return what tells progress the share that is done of reading texts and of judging questions after it."""
    if progress is None:
        return None
    roots = {opened.sources.of(instruction).root for instruction in instructions if instruction}
    questions = sum(_is_unjudged(opened, root) for root in roots)
    texts, judged, each = 0, list[int](), None  # the second are views, the third the seconds that a text takes

    def notify(report: IndexingReport) -> None:
        nonlocal texts, each
        if report.expected is None:
            progress(report)
            return
        part = report.in_hand / max(1, report.expected)
        if report.judging:
            judged.extend(view for view in report.views if view not in judged)
            done = texts + judging_cost(len(judged) - 1 + part)
        else:
            texts = report.expected
            done = texts * part
            if report.left is not None and part < 1:
                each = report.left / (texts - report.in_hand)
        whole = texts + judging_cost(max(questions, len(judged)))
        left = report.left if each is None else each * max(0.0, whole - done)
        progress(replace(report, share=min(1.0, done / max(1.0, whole)), left=left))

    return notify


def _is_unjudged(opened: Opened, root: Source) -> bool:
    """Return whether a question has yet to be judged."""
    view = opened.sources.view(root)
    return not root.in_words and (view is None or stored_verdict(opened.store, view.view_id) is None)


def judging_cost(questions: float) -> float:
    """Return how many readings of a text under a question judging some questions takes, whose samples are read."""
    return COMPARED * len(REFERENCES) * questions


def judge_views(opened: Opened, views: Iterable[View], progress: OnIndexing | None) -> dict[int, Verdict]:
    """Judge the questions of the views that have no verdict, where there are texts enough for one."""
    verdicts = {}
    for view in (candidate for candidate in views if wants_judging(opened.store, candidate)):
        report = IndexingReport(views=[view.view_id], instructions=[view.key.instruction], judging=True)
        verdict = judge_view(opened.store, opened.sources.encoders, view, on_texts=counting(report, progress))
        if verdict is not None:
            verdicts[view.view_id] = verdict
    return verdicts
