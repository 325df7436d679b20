"""How endpoints want to be asked, as earlier commands found out: a small file in the user's own folder.

It is a hint and no more: one that cannot be read or written is ignored, and what is wrong in it heals by asking.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from retriever.core.errors import RetrieverError
from retriever.core.paths import config_dir, make_folder, write_whole
from retriever.encoders.answers.wire import Format

FILE = "endpoints.json"
TEXTS_PER_CALL = 6
_DAYS = 7
"""After so many days an endpoint is met anew: its server or model may be another."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Ways of asking that an endpoint was found to understand; worth keeping, since finding them out costs calls.

    Attributes:
        form: the rung of the ladder.
        settled: whether a reply of that form was usable in this process; until then the ladder is tried.
        token_limit: name of the parameter for the most tokens of a reply.
        temperature: whether a temperature of 0 is accepted.
        system: whether a message of the system is accepted; else instructions begin the user's.
        thinks: whether the model writes more than its answers.
        slow: whether a call took longer than it may: then one text is asked at a time, with twice the limit.
        texts_per_call: most texts of a call; fewer for models that leave texts out or mix them up.
    """

    form: Format = Format.LIMITED
    settled: bool = False
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    system: bool = True
    thinks: bool = False
    slow: bool = False
    texts_per_call: int = TEXTS_PER_CALL


def recall(endpoint: str) -> Abilities:
    """Return what is remembered of an endpoint, unsettled; the defaults where that is nothing."""
    known = _read().get(endpoint)
    try:
        if isinstance(known, dict) and (_today() - date.fromisoformat(known["on"])).days < _DAYS:
            return replace(TypeAdapter(Abilities).validate_python(known["abilities"]), settled=False)
    except (KeyError, TypeError, ValueError, ValidationError):
        pass
    return Abilities()


def remember(endpoint: str, abilities: Abilities) -> None:
    """Keep what was found out about an endpoint, if the user's folder takes it."""
    known = {**_read(), endpoint: {"abilities": asdict(abilities), "on": _today().isoformat()}}
    try:
        make_folder(_path().parent)
        write_whole(_path(), json.dumps(known, indent=1) + "\n")
    except (OSError, RetrieverError):
        pass


def _read() -> Mapping[str, Any]:
    try:
        stored = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, RetrieverError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _path() -> Path:
    return config_dir() / FILE


def _today() -> date:
    return datetime.now(tz=UTC).date()
