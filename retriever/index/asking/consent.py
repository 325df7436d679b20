"""The hosts that a person allowed to get texts of an index: kept with the person, since indexes can come from anybody.

An index is known by its folder and by its first run: a copy, an import, or another index in the same folder has no
consent.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from retriever.core.errors import ConsentError, OutputError
from retriever.core.paths import config_dir, make_folder, write_whole
from retriever.store.database import Store

FILE = "hosts.json"
"""The file of allowed hosts in the user's configuration folder: lists of hosts by index."""


class Consent:
    """The hosts that may get texts of one index."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def _key(self) -> str:
        return f"{self._store.path.parent.resolve()} {self._store.identity()}"

    def hosts(self) -> list[str]:
        """Return the hosts that this person allowed."""
        hosts = _read().get(self._key)
        return [str(host) for host in hosts] if isinstance(hosts, list) else []

    def require(self, host: str) -> None:
        """Refuse a host of another machine.

        Raises:
            ConsentError: nobody allowed it.
        """
        if host not in self.hosts():
            raise not_allowed(host)

    def allow(self, host: str) -> None:
        """Allow texts of the index to be sent to a host from now on.

        Raises:
            OutputError: the file cannot be written.
        """
        _change(lambda known: {**known, self._key: sorted({*self.hosts(), host})})


def not_allowed(host: str) -> ConsentError:
    """Return the error of texts that would be sent to a host that nobody allowed."""
    return ConsentError(
        f"Texts of this index would be sent to {host}.",
        hint="Allow that host: --yes of a command, `index.teaching.allow(host)` in Python, a box of the app.",
        host=host,
    )


def forget(folder: Path) -> None:
    """Take back whatever was allowed of an index in a folder: another one takes its place."""
    place = f"{folder.resolve()} "
    if any(key.startswith(place) for key in _read()):
        _change(lambda known: {key: hosts for key, hosts in known.items() if not key.startswith(place)})


def _read() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        known = json.loads((config_dir() / FILE).read_text(encoding="utf-8"))
        if isinstance(known, dict):
            return known
    return {}


def _change(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    file = config_dir() / FILE
    try:
        make_folder(file.parent, private=True)
        with FileLock(file.with_name(f"{FILE}.lock"), mode=0o600):
            write_whole(file, json.dumps(change(_read()), ensure_ascii=False, indent=2))
    except OSError as error:
        raise OutputError(
            f"{file} cannot be written: {error.strerror or error}.",
            hint="It holds the hosts that may get texts: set RETRIEVER_CONFIG to a folder that can be written.",
        ) from error
