"""A page's state: frozen dataclasses that widgets fill and that the URL carries, so that a link shows the same view.

A *kind* is such a dataclass. Each of its fields is a query parameter of that name and a widget whose key is
`key(kind, field)`; parameters at their default are left out of the URL. Several pages may use one kind, and a page
several kinds, as long as no two fields on a page share a name. Fields are `str`, `int`, `bool`, `date | None`, a
`Literal` of strings, or a tuple of strings or ints of any length.

Streamlit's own ``bind="query-params"`` (1.67) does not do this. It spells a choice by its label, so that a link to
`Kettle (6)` ends with the seventh kettle and `mode=dense` means nothing; it drops values out of bounds, where k=99999
is to mean the most there is, days outside of an index to stay, and a missing index to be reported; and two pages whose
fields share a name would share its value.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import date
from typing import Any, NoReturn, TypeVar, get_origin, get_type_hints

import streamlit as st
from pydantic import TypeAdapter

T = TypeVar("T")
Params = dict[str, list[str]]

_ARRIVED, _WRITTEN, _LINKED = "state: arrived", "state: written", "state: linked"
_READ, _DRAWN, _RESEND = "state: read", "state: drawn", "state: resend"
_CARRIED, _REPLACED = "state: carried", "state: replaced"
_LATE_SECONDS = 3.0  # so long after a URL was replaced a slow browser may still send it


def begin() -> None:
    """Note the URL this run began with; called once a run, before any `current`.

    The URL decides where it differs from what was last written there: a link was opened, or the browser went back. An
    empty URL, as after a change of pages, brings back what the session had. A URL that comes with a widget just used
    decides nothing, nor does one that was replaced a moment ago: the browser had not seen yet what was last written,
    as where a number is typed and a button pressed at once.

    After a run that was cut short, widgets are sent their values again: that run may have been the only one to send
    them, and the browser fills those that it has not seen with Streamlit's defaults. Texts are not sent again, as
    that would undo what is being typed: their boxes are drawn with `components.text_box`.
    """
    arrived = {name: st.query_params.get_all(name) for name in st.query_params}
    used = any(_kept(kind) != replace(_kept(kind), **_held(kind)) for kind in st.session_state.get(_READ, ()))
    st.session_state[_ARRIVED] = arrived
    written, (replaced, late) = st.session_state.get(_WRITTEN), st.session_state.get(_REPLACED, ([], 0.0))
    seen = arrived == written or (arrived in replaced and time.monotonic() < late)
    st.session_state[_LINKED] = bool(arrived) and not used and not seen
    if arrived == written or st.session_state[_LINKED]:
        st.session_state.pop(_REPLACED, None)
    st.session_state[_READ] = {}
    st.session_state[_RESEND] = not st.session_state.pop(_DRAWN, True)
    st.session_state[_DRAWN] = False


def end() -> None:
    """Note that the page was drawn to its end, and write its state to the URL; called once a run, after all widgets.

    All is written at once: whatever was changed is one step on the way back in the browser.
    """
    st.session_state[_DRAWN] = True
    url = dict(st.session_state[_ARRIVED])
    for kind, spelled in st.session_state[_READ].items():
        url = {name: values for name, values in url.items() if name not in _hints(kind)} | spelled
    if url != st.session_state[_ARRIVED]:
        st.query_params.from_dict(url)
        replaced, _ = st.session_state.get(_REPLACED, ([], 0.0))
        st.session_state[_REPLACED] = ([*replaced, st.session_state[_ARRIVED]], time.monotonic() + _LATE_SECONDS)
    st.session_state[_WRITTEN] = url


def rerun() -> NoReturn:
    """Draw the page again with all widgets but texts sent their values.

    A browser that is slow to draw may not have seen the run before, the only one that sent them.
    """
    st.session_state[_DRAWN] = False
    st.rerun()


def follows_link() -> bool:
    """Whether the URL decides in this run: a link was opened, or the browser went back or forward."""
    linked: bool = st.session_state[_LINKED]
    return linked


def current(kind: type[T]) -> T:
    """Return the state of a kind as this run has it, and bring its widgets into line with it."""
    first, hints = kind not in st.session_state[_READ], _hints(kind)
    kept = _kept(kind)
    if first and follows_link():
        kept = parse(kind, st.session_state[_ARRIVED])
        for field in hints:
            st.session_state.pop(key(kind, field), None)
    resend, held = first and st.session_state[_RESEND], _held(kind)
    state = replace(kept, **held)  # type: ignore[type-var]
    shown = [field for field, hint in hints.items() if field not in held or (resend and hint is not str)]
    change(kind, **{field: getattr(state, field) for field in shown})
    st.session_state[_READ][kind] = params(state)
    st.session_state[_name(kind)] = state
    return state


def carry(kind: type[Any], field: str) -> bool:
    """Take over the text that another page carries where the user comes from there by the menu, and carry it on.

    Called before `current` of the kind, whose field takes the text; returns whether it is another than the page had.
    A link decides for itself, and a blank text is not carried.
    """
    origin, text = st.session_state.get(_CARRIED, (kind, ""))
    before, entered = _kept(kind), key(kind, field) not in st.session_state
    own = origin is kind or follows_link() or not entered
    taken = bool(not own and text != getattr(before, field))
    if taken:
        change(kind, **{field: text})
    if (now := getattr(current(kind), field)).strip():
        st.session_state[_CARRIED] = (kind, now)
    return taken


def key(kind: type[Any], field: str) -> str:
    """Return the key of the widget that fills a field."""
    if field not in _hints(kind):
        raise AttributeError(f"{kind.__name__} has no field {field!r}")
    return f"{kind.__name__}.{field}"


def change(kind: type[Any], **values: object) -> None:
    """Set fields from a callback, or before their widgets are drawn."""
    for field, value in values.items():
        st.session_state[key(kind, field)] = list(value) if isinstance(value, tuple) else value


def clear(kind: type[Any]) -> None:
    """Set all fields to their defaults, as `change` does."""
    change(kind, **{field: getattr(kind(), field) for field in _hints(kind)})


def params(*states: object) -> Params:
    """Return the query parameters of states: a link to a page with them shows it so."""
    spelled: Params = {}
    for state in states:
        default = type(state)()
        for field in _hints(type(state)):
            value = getattr(state, field)
            if value != getattr(default, field):
                spelled[field] = _spell(value)
    return spelled


def parse(kind: type[T], given: Mapping[str, Sequence[str]]) -> T:
    """Return the state that query parameters spell; what cannot be read is left at its default."""
    state = kind()
    for field, hint in _hints(kind).items():
        try:
            if field in given:
                state = replace(state, **{field: _read(hint, given[field])})  # type: ignore[type-var]
        except (ValueError, IndexError):
            continue
    return state


def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _name(kind: type[Any]) -> str:
    return f"state: {kind.__name__}"


def _kept(kind: type[T]) -> T:
    kept: T = st.session_state.get(_name(kind), kind())
    return kept


def _held(kind: type[Any]) -> dict[str, Any]:
    """Read the values that the widgets hold; a widget that was not drawn holds nothing."""
    held = {}
    for field, hint in _hints(kind).items():
        if (name := key(kind, field)) in st.session_state:
            value = st.session_state[name]
            held[field] = tuple(value) if get_origin(hint) is tuple else value
    return held


def _spell(value: object) -> list[str]:
    if isinstance(value, tuple | list):
        return [str(item) for item in value]
    return [value.isoformat() if isinstance(value, date) else str(int(value) if isinstance(value, bool) else value)]


def _read(hint: Any, given: Sequence[str]) -> Any:  # noqa: ANN401 - a type, and a value of it
    if hint is bool:
        return bool(int(given[-1]))
    return TypeAdapter(hint).validate_python(given if get_origin(hint) is tuple else given[-1])
