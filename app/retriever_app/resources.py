"""State that sessions share: loaded encoders, open indexes and running jobs; and which index the pages are about."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.core.languages import Language, language
from retriever.core.lessons import Lessons
from retriever.core.results import IndexStatus
from retriever.index import profiling
from retriever.index.asking.limits import read_limits
from retriever.index.profiling import Columns, Profile
from retriever.serving.budget import READ_ON_VARIABLE
from retriever.serving.jobs import Jobs
from retriever.serving.lines import Line
from retriever.serving.pools import MOST_OPEN, EncoderPool, IndexFolder, IndexPool, index_folder
from retriever.serving.reading_on import ReadingOn
from retriever.workspace import Index, limited
from retriever_app import questions, state
from retriever_app.background import FOREGROUND
from retriever_app.serving import VARIABLE
from retriever_app.training.job import MODELS_FOLDER, Trainings

if TYPE_CHECKING:
    from retriever_app.pages.groups.job import GroupingCache

_DEFAULT = "indexes"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which index the pages are about; empty for the first one."""

    index: str = ""


@st.cache_resource(show_spinner=False)
def encoders() -> EncoderPool:
    """Return the process's encoders."""
    return EncoderPool()


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """Return the process's jobs."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def groupings() -> "GroupingCache":
    """Return the groupings that the process has worked out."""
    from retriever_app.pages.groups.job import GroupingCache  # scikit-learn takes a second to load

    return GroupingCache()


def folder() -> IndexFolder:
    """Return the folder of indexes the app was started for."""
    return index_folder(Path(os.environ.get(VARIABLE) or _DEFAULT).expanduser())


def trainings() -> Trainings:
    """Return the trainings of this folder."""
    return Trainings(folder().folder / MODELS_FOLDER)


def statuses() -> dict[str, IndexStatus]:
    """Return the status of every index by its name; indexes that cannot be read are left out."""
    known = {}
    for name in folder().names():
        with suppress(RetrieverError):
            known[name] = status(open_index(name))
    return known


def made_with(model: Path) -> list[str]:
    """Return the names of the indexes whose vectors a model made."""
    return [name for name, known in statuses().items() if known.encoder.get("name") == str(model.resolve())]


def open_index(name: str) -> Index:
    """Return an index, open; all sessions share its files until its database is replaced by another.

    What language models are asked through it is a reading of its own, which `settings.toml` limits.

    Raises:
        IndexNotFoundError: there is none of that name, or no longer.
        InputError: the settings cannot be read.
    """
    return limited(_indexes(folder()).get(name), read_limits(folder().folder))


def line(name: str) -> Line:
    """Return the line of the jobs that write to an index of that name, which need not be there."""
    return _indexes(folder()).line(name)


@st.cache_resource(show_spinner=False)
def _indexes(folder: IndexFolder) -> IndexPool:
    return IndexPool(folder, encoders())


def reading_on() -> ReadingOn:
    """Return what reads on while nobody waits, begun when it was first asked for."""
    return _reading_on(folder(), float(os.environ.get(READ_ON_VARIABLE) or 0))


@st.cache_resource(show_spinner=False)
def _reading_on(folder: IndexFolder, minutes: float) -> ReadingOn:
    known, running = jobs(), trainings()

    def rests() -> bool:
        return FOREGROUND.rests and known.idle and running.holder() is None

    reading = ReadingOn(folder, encoders(), rests, minutes)
    reading.start()
    return reading


def status(index: Index) -> IndexStatus:
    """Read the current status of the index, but for verdicts and last uses, which nothing tells of."""
    return _status(index, index.identity, index.revision)


@st.cache_data(show_spinner=False, max_entries=MOST_OPEN)
def _status(_index: Index, name: str, revision: int) -> IndexStatus:
    return _index.status()


def language_of(index: Index) -> Language:
    """Return the language that an index's words are searched in."""
    return language(status(index).language)


def lessons(index: Index, instruction: str) -> Lessons | None:
    """Return what an instruction was taught; None for nothing."""
    return next((view.taught for view in status(index).views if view.instruction == instruction), None)


def columns(index: Index) -> Columns:
    """Return which of the index's fields hold what."""
    return profile(index).columns


def profile(index: Index) -> Profile:
    """Return the index's counts as they are now."""
    return _profile(index, index.identity, profiling.last_change(index))


@st.cache_data(show_spinner=False, max_entries=MOST_OPEN)
def _profile(_index: Index, name: str, change: str) -> Profile:
    return profiling.profile(_index, profiling.read_columns(_index))


def suggestions(index: Index) -> list[str]:
    """Return questions to choose from."""
    return questions.suggestions(status(index).views, profile(index))


def choose_index() -> None:
    """Draw the choice of an index in the sidebar."""
    names = folder().names()
    chosen = state.current(Chosen).index
    if not chosen and not names:
        return
    if not chosen:
        state.change(Chosen, index=names[0])
        chosen = state.current(Chosen).index
    shown = names if chosen in names else [chosen, *names]
    st.sidebar.selectbox("Index", shown, key=state.key(Chosen, "index"))


def chosen_index() -> Index | None:
    """Return the index the pages are about, or None before the first one.

    Raises:
        IndexNotFoundError: it is gone.
    """
    name = state.current(Chosen).index
    return open_index(name) if name else None


def needed_index() -> Index:
    """Return the index the pages are about; before the first one, say so and end the page.

    Raises:
        IndexNotFoundError: it is gone.
    """
    return chosen_index() or no_index()


def needed_path() -> Path:
    """Return the folder of the index the pages are about, which may be damaged; else as `needed_index`.

    Raises:
        IndexNotFoundError: it is gone.
    """
    name = state.current(Chosen).index
    return folder().find(name) if name else no_index()


def no_index() -> NoReturn:
    """Say that there is no index, and end the page."""
    st.text("There is no index yet. Open a file of reviews on the page Corpus.")
    st.page_link("corpus/view.py", label="Go to Corpus", icon=":material/arrow_forward:")
    st.stop()
