"""The trainings on the page Models: questions and answers in a table become a model of one's own, in the background."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa
import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.index import model_names
from retriever.index.model_names import read_promotion
from retriever.training.run.scores import Candidate
from retriever.training.splits import ENOUGH_ROWS, LEAST_ROWS, Findings, look_at
from retriever_app import charts, resources, state
from retriever_app.components import action_button, show_problem, showing_problems, theme
from retriever_app.text import count, plain
from retriever_app.training import model
from retriever_app.training.job import Training, Trainings
from retriever_app.training.model import ChosenTraining, Level, Rows

_REFRESH_SECONDS = 2.0  # between looks at a training that runs
_PREVIEWED = 200  # rows
_HIT_CHARACTERS = 220  # of a text that are shown
_ICONS = {
    "good": ":green[:material/check_circle:]",
    "note": ":material/info:",
    "problem": ":orange[:material/warning:]",
}


def draw() -> None:
    """Draw the choice of a training, and the one that is chosen."""
    trainings = resources.trainings()
    name = state.current(ChosenTraining).training
    if name or trainings.names():
        _choose(trainings, name)
    with showing_problems():
        if name:
            _show(trainings, trainings.find(name))
        else:
            _new(trainings)


def _choose(trainings: Trainings, name: str) -> None:
    """Draw the choice of a training, and the status of the chosen one."""
    names = trainings.names()
    options = list(dict.fromkeys(["", *names, name]))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = state.key(ChosenTraining, "training")
        st.selectbox("Training", options, key=key, format_func=lambda training: training or "New training …", width=320)
        if name in names:
            label, icon, colour = model.BADGES[trainings.status(trainings.find(name))]
            st.badge(label, icon=icon, color=colour)


def _new(trainings: Trainings) -> None:
    """Draw what a training begins with."""
    st.text(model.PURPOSE)
    st.page_link("teach/view.py", label="Go to Teach", icon=":material/school:")
    st.text(
        "Each row holds a review, a question about it and the answer. "
        f"Training needs at least {LEAST_ROWS} rows; we advise {ENOUGH_ROWS} or more."
    )
    index = resources.chosen_index()
    name = st.text_input("Name", value=trainings.free_name(), max_chars=64)
    begin = st.radio(
        "Start from",
        [beginning for beginning in model.BEGINNINGS if beginning != "reviews" or index is not None],
        key=state.key(ChosenTraining, "begin"),
        format_func=lambda beginning: model.BEGINNINGS[beginning],
        horizontal=True,
    )
    rows: Rows | None = []
    if begin == "file":
        rows = _uploaded()
    elif begin == "example":
        rows = model.example_rows()
        st.text(f"{count(len(rows), 'row')} of questions and answers on invented product reviews.")
    elif begin == "reviews" and index is not None:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            question = st.text_input("Your question", value="What broke?", max_chars=500)
            number = st.number_input("Reviews", 1, 500, 40)
        rows = model.rows_of_index(index, question.strip(), number)
        st.text("A random sample of the index; you fill in the answers.")

    def create() -> None:
        state.change(ChosenTraining, training=trainings.create(name, rows or []).name)

    action_button("Create the training", create, type="primary", disabled=rows is None)


def _uploaded() -> Rows | None:
    """Draw the place for a file, and return its rows; None before there is one that can be used."""
    file = st.file_uploader(
        "Rows of text, question and answer",
        type=list(model.FORMATS),
        max_upload_size=model.UPLOAD_MB,
        help="Rows of query, positives and negatives work too, with the column names of sentence-transformers, "
        "FlagEmbedding or tevatron.",
    )
    if file is None:
        return None
    findings = model.read_upload(file.name, file.getvalue())
    _say(model.lines(findings))
    return model.rows_of(findings) or None


def _show(trainings: Trainings, training: Training) -> None:
    """Draw a training as it stands."""
    status = trainings.status(training)
    if status == "failed":
        _failure(training)
    if status in ("running", "stopping"):
        _running(trainings, training)
    elif status == "finished":
        _finished(trainings, training)
    elif training.has_states:
        _interrupted(trainings, training)
    else:
        _draft(trainings, training)


def _draft(trainings: Trainings, training: Training) -> None:
    rows = training.rows()
    left, right = st.columns([5, 3], gap="medium")
    with left:
        if model.is_editable(rows):
            _draw_table(training, rows)
            st.caption("Changes are saved as you type. The last row adds a row; marked rows can be deleted.")
        else:
            _draw_preview(rows)
    with right:
        findings = _findings(training)
        _say(model.lines(findings))
        bases = _bases(trainings)
        base = st.selectbox("Base model", list(bases), format_func=lambda spec: bases[spec])
        _start(trainings, training, base, "Train", able=findings.problem is None and base is not None)


def _interrupted(trainings: Trainings, training: Training) -> None:
    record, steps = training.record()
    done = int(record[-1]["step"]) if record else 0
    st.text(f"Stopped after step {done} of {steps}. The training can go on from there.")
    _loss(training)
    _start(trainings, training, training.base, "Go on", able=True)
    _rows(trainings, training)


def _failure(training: Training) -> None:
    message = training.message()
    if message is None or message.outcome != "failed":
        show_problem(RetrieverError("The training ended without a message.", hint="Start it again."))
    else:
        problem = message.message.replace(str(training.rows_file), "The table")
        show_problem(RetrieverError(problem, hint=message.hint))


@st.fragment(run_every=_REFRESH_SECONDS)
def _running(trainings: Trainings, training: Training) -> None:
    """Draw how a training goes, again and again; the whole page once it has ended."""
    status = trainings.status(training)
    if status not in ("running", "stopping"):
        st.rerun()
    record, steps = training.record()
    progress = model.progress(record, steps, training.message())
    st.progress(progress.share or 0.0, text=plain(progress.sentence))
    _loss(training)
    if status == "stopping":
        st.text("It stops after this step and keeps its state.")
    else:
        action_button("Stop", partial(trainings.stop, training), icon=":material/stop:")
    st.caption("Training continues when you close this page. Searches go first.")


def _finished(trainings: Trainings, training: Training) -> None:
    report = training.report()
    st.text(model.summary(report))
    _scores(report)
    promotion = read_promotion()
    is_default = promotion is not None and promotion.folder == training.model.resolve()
    with st.container(horizontal=True, vertical_alignment="center"):
        if not is_default and st.button(
            "Promote", type="primary", help="New indexes will use it; existing indexes keep their model."
        ):
            _promote(training)
        card = (training.model / "README.md").read_text(encoding="utf-8")
        st.download_button("Model card", card, f"{training.name}.md", "text/markdown", icon=":material/download:")
        if not is_default:
            _discard(trainings, training)
    if is_default:
        st.text("This is the default model: new indexes use it. To search existing reviews with it, index them again.")
    if examples := report.get("examples"):
        st.subheader("Searches on held-out rows")
        for example in examples:
            _example(example)
    _rows(trainings, training)


def _promote(training: Training) -> None:
    from retriever.index import models

    with showing_problems(), st.spinner("Loading the model once to check it …"):
        models.promote(training.model)
        st.rerun()


def _rows(trainings: Trainings, training: Training) -> None:
    with st.expander(f"The rows of {plain(training.name)}"):
        _draw_preview(training.rows())
        with st.container(horizontal=True):
            st.download_button(
                "Download",
                training.rows_file.read_bytes(),
                f"{training.name}.jsonl",
                "application/jsonl",
                icon=":material/download:",
                help="In the format of `retriever finetune`.",
            )

            def copy() -> None:
                state.change(ChosenTraining, training=trainings.create(trainings.free_name(), training.rows()).name)

            action_button("Copy to a new training", copy)


def _start(trainings: Trainings, training: Training, base: str, label: str, *, able: bool) -> None:
    holder = trainings.holder()
    if holder is not None:
        st.text(f"{holder} is being trained. Only one training runs at a time.")
    with st.container(horizontal=True):
        action_button(
            label,
            partial(trainings.start, training, base),
            type="primary",
            icon=":material/play_arrow:",
            disabled=holder is not None or not able,
        )
        _discard(trainings, training)


def _discard(trainings: Trainings, training: Training) -> None:
    def discard() -> None:
        promotion = read_promotion()  # now: another session may have promoted it since the page was drawn
        if promotion is not None and promotion.folder == training.model.resolve():
            raise RetrieverError(
                f"The model of {training.name!r} is the default.", hint="Go back to the shipped model first."
            )
        if grown := trainings.grown_from(training):
            raise RetrieverError(
                f"The training {grown[0]!r} continues from the model of {training.name!r}.",
                hint="Finish or discard that training first.",
            )
        used = resources.made_with(training.model)
        if used:
            raise RetrieverError(
                f"The index {used[0]!r} uses the model of {training.name!r}.", hint="Delete that index first."
            )
        trainings.discard(training)
        state.change(ChosenTraining, training="")

    with st.popover("Discard", icon=":material/delete:"):
        st.text("This deletes the rows, the saved states and the model.")
        action_button("Delete for good", discard)


def _draw_table(training: Training, stored: Rows) -> None:
    """Draw the rows to be written in, ``stored`` as they are now; what is written is kept at once.

    Another session's rows are not written over, but shown.
    """
    begun, known, number = (f"{training.folder} {what}" for what in ("begun with", "known", "number"))
    changed = stored not in st.session_state.get(known, (stored,))
    if changed:
        st.text("The table was changed in another window. Check your last edit.")
    key = f"{training.folder} table {st.session_state.get(number, 0)}"
    if changed or key not in st.session_state:  # what was written in a table is forgotten where another page is shown
        columns = {name: pa.array([str(row.get(name, "")) for row in stored], pa.string()) for name in model.COLUMNS}
        st.session_state[begun], st.session_state[known] = pa.table(columns), (stored,)
        st.session_state[number] = st.session_state.get(number, 0) + 1
        key = f"{training.folder} table {st.session_state[number]}"
    edited = st.data_editor(
        st.session_state[begun],
        key=key,
        num_rows="dynamic",
        hide_index=True,
        height=430,
        column_config={
            "text": st.column_config.TextColumn("Review", width=200, help="The text of the review."),
            "question": st.column_config.TextColumn("Question", width=140, help="A question about the review."),
            "answer": st.column_config.TextColumn(
                "Answer", width=120, help="The answer that the review gives, in a few words."
            ),
        },
    )
    rows = model.written(cast("pa.Table", edited).to_pylist())
    if rows != stored:
        st.session_state[known] = (stored, rows)  # first: a run may be cut short, and these are no other session's
        training.write_rows(rows)


def _draw_preview(rows: Rows) -> None:
    """Show rows that are not to be changed."""
    st.dataframe(model.preview_rows(rows[:_PREVIEWED]), hide_index=True)
    if len(rows) > _PREVIEWED:
        st.caption(f"The first {_PREVIEWED} of {len(rows):,} rows.")


def _findings(training: Training) -> Findings:
    """Check a training's rows as they are."""
    changed = training.rows_file.stat()
    return _findings_of(str(training.rows_file), (changed.st_mtime_ns, changed.st_size), training)


@st.cache_data(show_spinner=False, max_entries=16)
def _findings_of(file: str, changed: tuple[int, int], _training: Training) -> Findings:
    return model.named(look_at(_training.rows_file), _training.rows_file, "The table")


def _bases(trainings: Trainings) -> dict[str, str]:
    """List the models that can be trained on: resolved names, and what they are called."""
    bases = {}
    with showing_problems():
        bases[model_names.resolve_name(model_names.DEFAULT)] = "the default model"
    if model_names.DEFAULT in model_names.shipped():
        bases.setdefault(f"{model_names.SHIPPED}:{model_names.DEFAULT}", "the shipped model")
    for folder, name in trainings.models().items():
        bases.setdefault(folder, f"{name}, trained here")
    return bases


def _say(lines: Sequence[tuple[Level, str]]) -> None:
    """Show sentences about rows."""
    for level, sentence in lines:
        st.markdown(f"{_ICONS[level]} {plain(sentence)}")


def _loss(training: Training) -> None:
    """Draw the loss so far."""
    record, steps = training.record()
    if record:
        spec = charts.loss_chart(model.losses(record), steps, theme())
        st.vega_lite_chart(spec=spec, alt="The loss by step, and its mean.")


def _scores(report: Mapping[str, Any]) -> None:
    """Show the scores before and after."""
    measures = model.measures(report)
    with st.container(horizontal=True, gap="medium"):
        for measure in measures[:2]:
            with st.container(border=True, width=360):
                st.metric(measure.label, f"{measure.after:.1f}", f"{measure.change:+.1f}", help=measure.help)
                st.caption(plain(measure.sentence))
    spec = charts.score_chart({measure.label: (measure.before, measure.after) for measure in measures}, theme())
    st.vega_lite_chart(spec=spec, alt="Every score before and after the training, in percent.")


def _example(example: Mapping[str, Any]) -> None:
    """Show a search before and after, side by side where there is room."""
    with st.container(border=True):
        st.text(example["query"])
        st.caption(plain(f"{example['instruction'] or 'Without a question'} — {example['answer']}"))
        for column, side in zip(st.columns(2), ("before", "after"), strict=True):
            with column:
                st.markdown(f"**{side.capitalize()}**, nearest first")
                for candidate in example[side]:
                    _candidate(Candidate(**candidate))


def _candidate(candidate: Candidate) -> None:
    mark = ":green[:material/check:]" if candidate.right else ":material/remove:"
    answer = f"**{plain(candidate.answer)}** — " if candidate.answer else ""
    short = candidate.text if len(candidate.text) <= _HIT_CHARACTERS else f"{candidate.text[:_HIT_CHARACTERS]} …"
    st.markdown(f"{mark} {answer}{plain(short)}")
