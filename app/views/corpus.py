"""Corpus: from a file of reviews to an index, and what an index holds."""

from functools import partial
from importlib.resources import files
from pathlib import Path

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.index.files import ENCODINGS, UTF8
from retriever.index.profiling import Columns
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import charts, frame, intake, resources, state
from retriever_app.components import attempt, facts, show_attempt, show_problem, told
from retriever_app.intake import Plan, Preview
from retriever_app.view_models import corpus, search, text
from retriever_app.view_models.problems import calling

_REFRESH_SECONDS = 1.0  # between looks at an indexing
_KEPT_FILE = "corpus: kept"
_BOX = "corpus: box"
_ICON = files("retriever_app").joinpath("icon.svg").read_text(encoding="utf-8")


def main() -> None:
    """Draw the page."""
    show_attempt()
    with told():
        _work()
    index = None
    with told():
        index = frame.chosen_index()
        if index is None:
            _welcome()
        else:
            _summary(index)
    with told():
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
        "Everything stays on this machine."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        _example()
        st.text("or open a file of your own:", width="content")


def _work() -> None:
    """Show every indexing that goes on, has ended, or waits to be gone on with."""
    found = intake.unfinished(resources.folder().folder)
    waiting = found.plans
    for name, job in resources.jobs().named("index ").items():
        plan = next((one for one in waiting if one == job.about), None)
        if not job.snapshot().over:
            _progress(job)
        else:
            _ended(name, job, plan)
        waiting = [one for one in waiting if one != plan]
    for plan in waiting:
        _waiting(plan, f"The indexing of {plan.name} was not finished.")
    for folder in found.unreadable:
        _unreadable(folder)


def _unreadable(folder: Path) -> None:
    with st.container(border=True):
        st.text("An indexing was not finished, and what it was to do cannot be read. Drop the file again.")
        st.button("Leave it", key=f"leave {folder.name}", on_click=intake.discard, args=(folder,))


@st.fragment(run_every=_REFRESH_SECONDS)
def _progress(job: Job) -> None:
    snapshot = job.snapshot()
    if snapshot.over:
        st.rerun()
    reading = snapshot.progress
    with st.container(border=True):
        st.text(job.title)
        line = corpus.progress_line(reading, snapshot.seconds)
        if snapshot.status == "stopping":
            line = f"{line}; stopping when the thousand reviews in hand are read"
        st.progress(reading.share if reading else 0.0, text=text.plain(line))
        stopping = snapshot.status == "stopping"
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Stop", key=f"stop {job.title}", on_click=job.stop, disabled=stopping, icon=":material/stop:")
            if isinstance(job.about, Plan):
                _search_meanwhile(job.about.index)


def _search_meanwhile(name: str) -> None:
    """Draw the way to a search of what an index holds already; nothing before it holds something."""
    try:
        held = resources.status(resources.open_index(name)).documents
    except RetrieverError:  # its database is being made
        return
    if held:
        chosen, label = state.params(frame.Chosen(name)), f"Search the {text.count(held, 'review')} it holds already"
        st.page_link("views/search.py", label=label, icon=":material/search:", query_params=chosen)


def _ended(name: str, job: Job, plan: Plan | None) -> None:
    """Show how a job, which bears a name, came to its end, and what is left of its plan."""
    snapshot = job.snapshot()
    if snapshot.status == "stopped" and plan is not None:
        _waiting(plan, f"{job.title} was stopped. What was read stays.")
        return
    with st.container(border=True):
        if snapshot.status == "stopped":
            st.text(f"{job.title} was stopped. What was read stays.")
        elif snapshot.error is not None:
            st.text(f"{job.title} did not succeed.")
            show_problem(snapshot.error)
            if plan is not None:
                _go_on(plan)
        else:
            st.text(f"{job.title} is done: {corpus.report_line(snapshot.result)}")
        with st.container(horizontal=True):
            if snapshot.status == "done":
                st.button("Show it", key=f"show {name}", type="primary", on_click=lambda: _show(name))
            st.button("Close", key=f"close {name}", on_click=lambda: resources.jobs().forget(name))


def _show(name: str) -> None:
    state.change(frame.Chosen, index=name.removeprefix("index "))
    resources.jobs().forget(name)


def _waiting(plan: Plan, what: str) -> None:
    with st.container(border=True):
        st.text(what)
        _go_on(plan)


def _go_on(plan: Plan) -> None:
    folder = plan.file.parent.name
    with st.container(horizontal=True):
        st.button("Go on", key=f"resume {folder}", type="primary", on_click=attempt, args=(partial(_start, plan),))
        st.button("Leave it", key=f"leave {folder}", on_click=attempt, args=(partial(_discard, plan),))


def _discard(plan: Plan) -> None:
    intake.discard(plan.file.parent)
    name = f"index {plan.index}"
    job = resources.jobs().find(name)
    if job is not None and job.about == plan:
        resources.jobs().forget(name)


def _start(plan: Plan) -> None:
    encoders = resources.encoders()
    path = resources.folder().new(plan.index)
    work = intake.indexing(plan, path, encoders)
    resources.jobs().start(f"index {plan.index}", f"Indexing {plan.name} into {plan.index}", work, about=plan)


def _example() -> None:
    st.button(
        "Try the example",
        help="224 invented reviews of 12 products",
        icon=":material/play_arrow:",
        on_click=attempt,
        args=(_take_example,),
    )


def _drop() -> None:
    """Draw the way from a file to an index."""
    number = st.session_state.setdefault(_BOX, 0)
    dropped = st.file_uploader(
        "Reviews as CSV, JSON Lines or Parquet",
        type=list(intake.TYPES),
        key=f"corpus: file {number}",
        help="One review a row, with column names.",
    )
    if dropped is not None:
        data = dropped.getvalue()
        encoding = _encoding(dropped.name, data)
        _keep((dropped.file_id, encoding), dropped.name, data, encoding)
    kept: Path | None = st.session_state.get(_KEPT_FILE, (None, None))[1]
    if kept is not None and kept.is_file():
        _prepare(kept)


def _keep(token: object, name: str, data: bytes, encoding: str = UTF8) -> None:
    """Keep what was chosen, once, in the place of what was chosen before."""
    before, file = st.session_state.get(_KEPT_FILE, (None, None))
    if before == token and file.is_file():
        return
    if file is not None:
        intake.discard(file.parent)
        del st.session_state[_KEPT_FILE]
    st.session_state[_KEPT_FILE] = (token, intake.keep(resources.folder().folder, name, data, encoding))


def _take_example() -> None:
    _empty_box()
    _keep("example", "example.jsonl", intake.EXAMPLE_REVIEWS.read_bytes())


def _empty_box() -> None:
    """Have another box drawn, which holds no file."""
    st.session_state[_BOX] += 1


def _encoding(name: str, data: bytes) -> str:
    guessed = intake.guess_encoding(name, data)
    if guessed == UTF8:
        return guessed
    st.text("The file is not in UTF-8. Choose the encoding with which the letters below look right.")
    known = list(ENCODINGS)
    return st.selectbox(
        "Encoding", known, index=known.index(guessed), format_func=lambda one: ENCODINGS[one], width=360
    )


def _prepare(file: Path) -> None:
    """Show what a file holds, let columns be corrected, and start."""
    with calling(file, file.name):
        preview = intake.preview(file)
    st.markdown("**Which column is what?**")
    columns = _columns(file, preview)
    if rows := corpus.preview_rows(preview, columns):
        st.dataframe(rows, hide_index=True)
    for doubt in corpus.doubts(preview, columns):
        st.markdown(f":material/info: {text.plain(doubt)}")
    place = resources.folder()
    left, right = st.columns([1, 2])
    name = left.text_input("Name of the index", place.only or corpus.index_name(file.name), disabled=bool(place.only))
    asked = right.multiselect(
        "Read them under these instructions at once",
        search.SUGGESTED,
        accept_new_options=True,
        placeholder="Optional; each takes longer now and answers at once later",
    )
    with told(), calling(file, file.name):
        _say_known(file, columns, name.strip())
    sentences = name.strip() not in place.names() and _in_sentences(file)
    if preview.total:
        st.caption(corpus.time_line(preview.total, len(asked)))
    count = f"{preview.total:,} " if preview.total else ""
    if st.button(f"Index {count}reviews", type="primary", disabled=not columns.text):
        _begin(Plan(file, name.strip(), columns, tuple(asked), sentences))
        st.rerun()


def _in_sentences(file: Path) -> bool:
    """Ask whether a new index is to be one of sentences."""
    return st.toggle("Sentence by sentence", key=f"sentences {file.parent.name}", help=corpus.SENTENCES_HELP)


def _say_known(file: Path, columns: Columns, index: str) -> None:
    """Say how many of the file's reviews would take the place of others."""
    if not columns.text or index not in resources.folder().names():
        return
    ids = intake.first_ids(file, columns)
    known = resources.open_index(index).documents(ids)
    if said := corpus.known_line(len(known), len(ids), index):
        st.markdown(f":material/info: {text.plain(said)}")


def _begin(plan: Plan) -> None:
    """Start what was prepared; the file is the plan's from now on, and the page forgets it first."""
    resources.folder().new(plan.index)
    _empty_box()
    del st.session_state[_KEPT_FILE]
    intake.note(plan)
    _start(plan)


def _columns(file: Path, preview: Preview) -> Columns:
    """Draw a choice for every role, and return what was chosen."""
    chosen = {}
    with st.container(horizontal=True):
        for role, label in corpus.ROLES.items():
            options = [corpus.NO_COLUMN, *preview.names]
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
    facts(corpus.profile_facts(profile))
    left, right = st.columns(2, gap="large")
    with left:
        if profile.stars:
            st.markdown("**Stars**")
            charts.bars(corpus.star_rows(profile), "stars", "reviews")
        if profile.months:
            st.markdown("**Reviews a month**")
            charts.months(corpus.month_rows(profile), "reviews")
        st.markdown("**Length in words**")
        charts.bars(corpus.length_rows(profile), "words", "reviews")
    with right:
        if profile.products:
            st.markdown("**Products**")
            charts.bars(corpus.product_rows(profile), "product", "reviews")
    _skipped(index)


def _skipped(index: Index) -> None:
    rows = corpus.skipped_rows(resources.status(index).quarantined)
    if rows:
        with st.expander(f"{text.count(len(rows), 'row')} skipped by the last indexing", icon=":material/rule:"):
            st.dataframe(rows, hide_index=True)


main()
