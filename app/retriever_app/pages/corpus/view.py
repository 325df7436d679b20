"""Corpus: from a file of reviews to an index, and what an index holds."""

import time
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.index.files import ENCODINGS, UTF8
from retriever.index.profiling import Columns, Profile
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import charts, example_file, questions, resources, state, text
from retriever_app.background import seconds_a_text
from retriever_app.components import action_button, facts, show_problem, showing_problems, theme, watch
from retriever_app.filters import Filters
from retriever_app.pages.corpus import job as intake
from retriever_app.pages.corpus import model
from retriever_app.pages.corpus.job import Plan, Preview
from retriever_app.pages.groups.asked import Grouping
from retriever_app.resources import Chosen
from retriever_app.text import calling

_KEPT_FILE = "corpus: kept"
_BOX = "corpus: box"
_DONE = "corpus: done"
_ICON = files("retriever_app").joinpath("icon.svg").read_text(encoding="utf-8")


def main() -> None:
    """Draw the page."""
    with showing_problems():
        _indexings()
    index = None
    with showing_problems():
        index = resources.chosen_index()
        if index is None:
            _welcome()
        else:
            _summary(index)
    with showing_problems():
        if index is None:
            _drop()
        else:
            with st.expander("Add reviews, or open another file", icon=":material/upload_file:"):
                _drop()
                _example()


def _welcome() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.image(_ICON, width=56)
        st.title("retriever", anchor=False, width="content")
    st.text(
        "Ask your reviews questions in plain words: what broke, how customers feel, what they use the product for. "
        "Nothing leaves this machine unless you let a model elsewhere read it."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        _example()
        st.text("or open a file of your own:", width="content")


def _indexings() -> None:
    """Show every indexing that goes on, has ended, or waits to be continued."""
    seen = time.monotonic() - model.SEEN_SECONDS
    done = st.session_state.get(_DONE, {})
    st.session_state[_DONE] = {index: told for index, told in done.items() if told[-1] > seen}
    waiting, unreadable = intake.unfinished(resources.folder().folder)
    for name, job in resources.jobs().named("index ").items():
        plan = next((plan for plan in waiting if plan == job.about), None)
        if job.over:
            _ended(name, job, plan)
        else:
            st.text(job.title)
            watch(job, job.title, partial(_search_meanwhile, name.removeprefix("index ")))
        waiting = [other for other in waiting if other != plan]
    _done()
    for plan in waiting:
        _waiting(plan, f"The indexing of {plan.name} was not finished.")
    for folder in unreadable:
        with st.container(border=True):
            st.text("An indexing was not finished, and its plan cannot be read. Drop the file again.")
            st.button("Discard", key=f"leave {folder.name}", on_click=intake.discard, args=(folder,))


def _search_meanwhile(name: str) -> None:
    """Draw the way to a search of what an index holds already; nothing before it holds something."""
    try:
        held = resources.status(resources.open_index(name)).documents
    except RetrieverError:  # its database is being made
        return
    if held:
        label = f"Search the first {text.count(held, 'review')}"
        chosen = state.params(Chosen(name))
        st.page_link("search/view.py", label=label, icon=":material/search:", query_params=chosen)


def _ended(name: str, job: Job, plan: Plan | None) -> None:
    """Show how a job, which bears a name, ended, and what is left of its plan."""
    snapshot = job.snapshot()
    stopped = f"{job.title} was stopped. The reviews read so far stay in the index."
    if snapshot.status == "stopped" and plan is not None:
        _waiting(plan, stopped)
        return
    if snapshot.status == "done":
        sentence = f"{job.title} is done: {model.report_line(snapshot.result, snapshot.seconds)}"
        st.session_state[_DONE][name.removeprefix("index ")] = (sentence, snapshot.result, time.monotonic())
        resources.jobs().forget(name)
        return
    with st.container(border=True):
        if snapshot.status == "stopped":
            st.text(stopped)
        elif snapshot.error is not None:
            st.text(f"{job.title} failed.")
            show_problem(snapshot.error)
            if plan is not None:
                _go_on(plan)
        st.button("Close", key=f"close {name}", on_click=lambda: resources.jobs().forget(name))


def _done() -> None:
    """Show the indexings that were done by this run, or so shortly before that nobody may have seen it."""
    for index, (sentence, report, _) in st.session_state[_DONE].items():
        with st.container(border=True):
            st.text(sentence)
            if report.notes:
                with st.expander(model.notes_label(report), type="compact"):
                    for note in report.notes:
                        st.text(note)
            if state.current(Chosen).index != index:
                show = partial(state.change, Chosen, index=index)
                st.button("Show this index", key=f"show {index}", type="primary", on_click=show)


def _waiting(plan: Plan, sentence: str) -> None:
    with st.container(border=True):
        st.text(sentence)
        _go_on(plan)


def _go_on(plan: Plan) -> None:
    folder = plan.file.parent.name
    with st.container(horizontal=True):
        action_button("Continue", partial(_start, plan), key=f"resume {folder}", type="primary")
        action_button("Discard", partial(_discard, plan), key=f"leave {folder}")


def _discard(plan: Plan) -> None:
    intake.discard(plan.file.parent)
    name = f"index {plan.index}"
    job = resources.jobs().find(name)
    if job is not None and job.about == plan:
        resources.jobs().forget(name)


def _start(plan: Plan) -> None:
    work = partial(intake.index_file, plan, resources.folder().new(plan.index), resources.encoders())
    name, title = f"index {plan.index}", f"Indexing {plan.name} into {plan.index}"
    resources.jobs().start(name, title, work, about=plan, line=resources.line(plan.index))


def _example() -> None:
    def take() -> None:
        _empty_box()
        _keep("example", "example.jsonl", example_file("reviews.jsonl").read_bytes())

    action_button("Try the example", take, help="224 invented reviews of 12 products", icon=":material/play_arrow:")


def _drop() -> None:
    """Draw the way from a file to an index."""
    number = st.session_state.setdefault(_BOX, 0)
    dropped = st.file_uploader(
        "Reviews as CSV, a spreadsheet, JSON or Parquet",
        type=list(intake.TYPES),
        key=f"corpus: file {number}",
        help="One row for each review, best below a row of column names; zipped files too.",
    )
    if dropped is not None:
        data = dropped.getvalue()
        encoding = _encoding(dropped.name, data)
        _keep((dropped.file_id, encoding), dropped.name, data, encoding)
    kept: Path | None = st.session_state.get(_KEPT_FILE, (None, None))[1]
    if kept is not None and kept.is_file():
        _prepare(kept)


def _keep(token: object, name: str, data: bytes, encoding: str = UTF8) -> None:
    """Keep the chosen file, once, in the place of the one before."""
    before, file = st.session_state.get(_KEPT_FILE, (None, None))
    if before == token and file.is_file():
        return
    if file is not None:
        intake.discard(file.parent)
        del st.session_state[_KEPT_FILE]
    st.session_state[_KEPT_FILE] = (token, intake.keep(resources.folder().folder, name, data, encoding))


def _empty_box() -> None:
    """Have another box drawn, which holds no file."""
    st.session_state[_BOX] += 1


def _encoding(name: str, data: bytes) -> str:
    guessed = intake.guess_encoding(name, data)
    if guessed == UTF8:
        return guessed
    st.text("The file is not in UTF-8. Choose the encoding with which the letters below look right.")
    options = list(ENCODINGS)
    return st.selectbox("Encoding", options, index=options.index(guessed), format_func=ENCODINGS.__getitem__, width=360)


def _prepare(file: Path) -> None:
    """Show what a file holds, let columns be corrected, and start."""
    with calling(file, file.name):
        preview = intake.preview(file)
    st.markdown("**Columns**")
    columns = _columns(file, preview)
    if rows := model.preview_rows(preview, columns):
        st.dataframe(rows, hide_index=True)
    for note in preview.notes:
        st.caption(text.plain(note))
    for doubt in model.doubts(preview, columns):
        st.markdown(f":material/info: {text.plain(doubt)}")
    place = resources.folder()
    left, right = st.columns([1, 2])
    name = left.text_input("Name of the index", place.only or model.index_name(file.name), disabled=bool(place.only))
    name = name.strip()
    instructions = right.multiselect(
        "Questions to prepare now",
        questions.fitting(columns),
        accept_new_options=True,
        placeholder="Optional: indexing takes longer, and these questions are answered at once later",
    )
    with showing_problems(), calling(file, file.name):
        _say_known(file, columns, name)
    sentences = name not in place.names() and st.toggle(
        "Sentence by sentence", key=f"sentences {file.parent.name}", help=model.SENTENCES_HELP
    )
    if preview.total and not sentences:
        known = [status for status in resources.statuses().values() if status.units == "documents"]
        rate, under = (seconds_a_text(known, instruction=under) for under in (False, True))
        if line := model.time_line(preview.total, len(instructions), rate, under):
            st.caption(line)
    count = f"{preview.total:,} " if preview.total else ""
    if st.button(f"Index {count}reviews", type="primary", disabled=not columns.text):
        _begin(Plan(file, name, columns, tuple(instructions), sentences))
        st.rerun()


def _say_known(file: Path, columns: Columns, index: str) -> None:
    """Say how many of the file's reviews would replace others."""
    if not columns.text or index not in resources.folder().names():
        return
    ids = intake.first_ids(file, columns)
    known = resources.open_index(index).get(ids)
    if line := model.known_line(len(known), len(ids), index):
        st.markdown(f":material/info: {text.plain(line)}")


def _begin(plan: Plan) -> None:
    """Start what was prepared; the file is the plan's from now on, and the page forgets it first."""
    resources.folder().new(plan.index)
    _empty_box()
    del st.session_state[_KEPT_FILE]
    intake.note(plan)
    _start(plan)


def _columns(file: Path, preview: Preview) -> Columns:
    """Draw a choice for every role, and return the columns chosen."""
    chosen = {}
    with st.container(horizontal=True):
        for role, label in model.ROLES.items():
            options = [model.NO_COLUMN, *preview.names]
            chosen[role] = st.selectbox(
                label,
                options,
                index=options.index(getattr(preview.columns, role)),
                format_func=lambda name: name or "none",
                key=f"column {role} {file.parent.name}",
                width=180,
            )
    return Columns(**chosen)


def _summary(index: Index) -> None:
    profile = resources.profile(index)
    st.title(index.path.name)
    if not profile.documents:
        st.text("This index holds no reviews yet.")
        return
    _starts(profile)
    facts(model.profile_facts(profile))
    left, right = st.columns(2, gap="large")
    with left:
        if profile.stars:
            _bars("Stars", model.star_counts(profile))
        if profile.products:
            _bars("Products", model.product_counts(profile))
    with right:
        _bars("Length in words", model.length_counts(profile))
    if profile.months:
        title = f"Reviews by {charts.by_period(profile.months)[0]}"
        st.markdown(f"**{title}**")
        spec = charts.time_chart(profile.months, theme().of(0), theme())
        st.vega_lite_chart(spec=spec, alt=title)
    rows = model.skipped_rows(resources.status(index).quarantined)
    if rows:
        with st.expander(f"{text.count(len(rows), 'row')} skipped by the last indexing", icon=":material/rule:"):
            st.dataframe(rows, hide_index=True)


def _starts(profile: Profile) -> None:
    """Draw questions to begin with; each leads to the groups of its answers."""
    st.text("Begin with a question:")
    chosen = None
    with st.container(horizontal=True):
        for start in questions.starts(profile):
            if st.button(start.label, key=f"start {start.label}", type="primary"):
                chosen = start
    if chosen is not None:
        states = (state.current(Chosen), Grouping(chosen.question), Filters(stars=chosen.stars))
        st.switch_page("groups/view.py", query_params=state.params(*states))


def _bars(title: str, counts: Mapping[str, int]) -> None:
    st.markdown(f"**{title}**")
    st.vega_lite_chart(spec=charts.bar_chart(counts, theme().of(0), theme()), alt=f"Reviews by {title.lower()}")


main()
