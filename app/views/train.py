"""Train: questions and answers in a table become a model of one's own, in the background."""

from functools import partial

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.index import model_names
from retriever.index.model_names import read_promotion
from retriever.training.run.checks import ENOUGH_ROWS, LEAST_ROWS
from retriever_app import frame, resources, state, training_parts, training_rows
from retriever_app.components import attempt, show_attempt, show_problem, told
from retriever_app.training_rows import Rows
from retriever_app.trainings import Status, Training, Trainings
from retriever_app.view_models import training as shown
from retriever_app.view_models.text import count, plain
from retriever_app.view_models.training import ChosenTraining

_REFRESH_SECONDS = 2.0  # between looks at a training that runs


def main() -> None:
    """Draw the page."""
    st.title("Train")
    trainings = resources.trainings()
    show_attempt()
    name = state.current(ChosenTraining).training
    names = trainings.names()
    options = ["", *names, *([] if name in ["", *names] else [name])]
    if names or name:
        _choose(trainings, name, options)
    with told():
        if name:
            _show(trainings, trainings.find(name))
        else:
            _new(trainings)
    with told():
        _models(trainings)


def _choose(trainings: Trainings, name: str, options: list[str]) -> None:
    """Draw the choice of a training, and how the chosen one stands."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = state.key(ChosenTraining, "training")
        st.selectbox("Training", options, key=key, format_func=lambda one: one or "New training …", width=320)
        if name in trainings.names():
            badge = shown.BADGES[trainings.status(trainings.find(name))]
            st.badge(badge.label, icon=badge.icon, color=badge.colour)


def _new(trainings: Trainings) -> None:
    """Draw what a training begins with."""
    st.text(
        "Teach the model your questions: write what reviews answer to them, and it learns to read reviews that way. "
        f"{LEAST_ROWS} rows are the least; from {ENOUGH_ROWS} on a model is worth having."
    )
    index = frame.chosen_index()
    name = st.text_input("Name", value=trainings.free_name(), max_chars=64)
    begin = st.radio(
        "Begin with",
        [one for one in shown.BEGINNINGS if one != "reviews" or index is not None],
        key=state.key(ChosenTraining, "begin"),
        format_func=lambda one: shown.BEGINNINGS[one],
        horizontal=True,
    )
    rows: Rows | None = []
    if begin == "file":
        rows = _uploaded()
    elif begin == "example":
        rows = training_rows.example()
        st.text(f"{count(len(rows), 'row')} of questions and answers on invented product reviews.")
    elif begin == "reviews" and index is not None:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            question = st.text_input("Your question", value="What broke?", max_chars=500)
            number = st.number_input("Reviews", 1, 500, 40)
        rows = training_rows.rows_of_index(index, question.strip(), number)
        st.text("They are drawn from the index, with room for your answers.")

    def make() -> None:
        state.change(ChosenTraining, training=trainings.create(name, rows or []).name)

    st.button("Make the training", type="primary", on_click=attempt, args=(make,), disabled=rows is None)


def _uploaded() -> Rows | None:
    """Draw the place for a file, and return its rows; None before there is one that can be used."""
    file = st.file_uploader(
        "Rows of text, question and answer",
        type=list(training_rows.FORMATS),
        max_upload_size=training_rows.UPLOAD_MB,
        help="Or of query, positives and negatives, as sentence-transformers, FlagEmbedding and tevatron name them.",
    )
    if file is None:
        return None
    found = training_rows.read_upload(file.name, file.getvalue())
    training_parts.say(shown.lines(found.findings))
    return found.rows or None


def _show(trainings: Trainings, training: Training) -> None:
    """Draw a training as it stands."""
    status = trainings.status(training)
    if status in ("running", "stopping"):
        _running(trainings, training)
    elif status == "finished":
        _finished(trainings, training)
    elif training.has_states:
        _interrupted(trainings, training, status)
    else:
        _draft(trainings, training, status)


def _draft(trainings: Trainings, training: Training, status: Status) -> None:
    if status == "failed":
        _failure(training)
    rows = training.rows()
    left, right = st.columns([5, 3], gap="medium")
    with left:
        if training_rows.is_editable(rows):
            training_parts.table(training, rows)
            st.caption("Every row is kept as it is written. The last row adds one; marked rows can be deleted.")
        else:
            training_parts.preview(rows)
    with right:
        found = training_parts.findings(training)
        training_parts.say(shown.lines(found))
        bases = _bases(trainings)
        base = st.selectbox("Train on", list(bases), format_func=lambda spec: bases[spec])
        _start(trainings, training, base, "Train", able=found.problem is None and base is not None)


def _interrupted(trainings: Trainings, training: Training, status: Status) -> None:
    if status == "failed":
        _failure(training)
    record, steps = training.record()
    done = int(record[-1]["step"]) if record else 0
    st.text(f"Stopped after step {done} of {steps}. What was learned is kept.")
    training_parts.loss(training)
    _start(trainings, training, training.base, "Go on", able=True)
    _rows(trainings, training)


def _failure(training: Training) -> None:
    said = training.told()
    if said is None or said.outcome != "failed":
        show_problem(RetrieverError("The training ended without a word.", hint="If the machine is well, begin again."))
    else:
        message = said.message.replace(str(training.rows_file), "The table")
        show_problem(RetrieverError(message, hint=said.hint))


@st.fragment(run_every=_REFRESH_SECONDS)
def _running(trainings: Trainings, training: Training) -> None:
    """Draw how a training goes, again and again; the whole page once it has ended."""
    status = trainings.status(training)
    if status not in ("running", "stopping"):
        st.rerun()
    record, steps = training.record()
    now = shown.progress(record, steps, training.told())
    st.progress(now.share, text=plain(now.text))
    training_parts.loss(training)
    if status == "stopping":
        st.text("It stops after this step, and keeps what was learned.")
    else:
        st.button("Stop", icon=":material/stop:", on_click=attempt, args=(lambda: trainings.stop(training),))
    st.caption("It goes on when this page is closed; searches come first.")


def _finished(trainings: Trainings, training: Training) -> None:
    report = training.report()
    st.text(shown.summary(report))
    training_parts.scores(report)
    promotion = read_promotion()
    is_default = promotion is not None and promotion.folder == training.model.resolve()
    with st.container(horizontal=True, vertical_alignment="center"):
        if not is_default and st.button(
            "Promote", type="primary", help="New indexes are then made with it; those there are keep theirs."
        ):
            _promote(training)
        card = (training.model / "README.md").read_text(encoding="utf-8")
        st.download_button("Model card", card, f"{training.name}.md", "text/markdown", icon=":material/download:")
        if not is_default:
            _discard(trainings, training)
    if is_default:
        st.text("The default model: new indexes are made with it. To search reviews by it, index them once more.")
    if examples := shown.examples(report):
        st.subheader("Searches it never saw")
        for one in examples:
            training_parts.example(one)
    _rows(trainings, training)


def _promote(training: Training) -> None:
    from retriever.index import models

    with told(), st.spinner("Loading it once, to be sure …"):
        models.promote(training.model)
        st.rerun()


def _rows(trainings: Trainings, training: Training) -> None:
    with st.expander(f"The rows of {plain(training.name)}"):
        training_parts.preview(training.rows())
        with st.container(horizontal=True):
            st.download_button(
                "Download",
                training.rows_file.read_bytes(),
                f"{training.name}.jsonl",
                "application/jsonl",
                icon=":material/download:",
                help="As `retriever finetune` reads them.",
            )

            def copy() -> None:
                state.change(ChosenTraining, training=trainings.create(trainings.free_name(), training.rows()).name)

            st.button("Copy to a new training", on_click=attempt, args=(copy,))


def _start(trainings: Trainings, training: Training, base: str, label: str, *, able: bool) -> None:
    holder = trainings.holder()
    if holder is not None:
        st.text(f"{holder} is being trained. One trains at a time.")
    with st.container(horizontal=True):
        st.button(
            label,
            type="primary",
            icon=":material/play_arrow:",
            disabled=holder is not None or not able,
            on_click=attempt,
            args=(partial(trainings.start, training, base),),
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
                f"The training {grown[0]!r} goes on from the model of {training.name!r}.",
                hint="Finish or discard that training first.",
            )
        used = resources.made_with(training.model)
        if used:
            raise RetrieverError(
                f"The model of {training.name!r} reads the index {used[0]!r}.", hint="Delete that index first."
            )
        trainings.discard(training)
        state.change(ChosenTraining, training="")

    with st.popover("Discard", icon=":material/delete:"):
        st.text("Rows, states and model are deleted for good.")
        st.button("Delete for good", on_click=attempt, args=(discard,))


def _bases(trainings: Trainings) -> dict[str, str]:
    """List the models that can be trained on: resolved names, and what they are called."""
    shipped = f"{model_names.SHIPPED}:{model_names.DEFAULT}"
    found = {}
    with told():
        found[model_names.resolve_name(model_names.DEFAULT)] = "the default model"
    if model_names.DEFAULT in model_names.shipped():
        found.setdefault(shipped, "the model that came with retriever")
    for folder, name in _own(trainings).items():
        found.setdefault(folder, f"{name}, trained here")
    return found


def _own(trainings: Trainings) -> dict[str, str]:
    """Return the folders of the models that were trained here, and their names."""
    every = [trainings.find(name) for name in trainings.names()]
    return {str(one.model.resolve()): one.name for one in every if trainings.status(one) == "finished"}


def _models(trainings: Trainings) -> None:
    """Draw which models there are, and the way back to the shipped one."""
    with st.expander("Models"):
        own = _own(trainings)
        st.dataframe(shown.model_rows(model_names.named(), own), hide_index=True)
        promotion = read_promotion()
        if promotion is not None:
            st.text(f"New indexes are made with {own.get(str(promotion.folder), promotion.folder)}.")
            st.button("Back to the shipped model", on_click=attempt, args=(_reset,))


def _reset() -> None:
    from retriever.index import models

    models.reset()


main()
