"""Giving space back: views that are dropped. Rows go in a transaction first, files after it.

The caller holds the writer's lock.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from retriever.core.errors import InputError, UsageError
from retriever.index.generations import remove_other_generations
from retriever.store.database import Store
from retriever.store.views import View


def views_of(store: Store, instructions: Iterable[str]) -> list[View]:
    """Return the views of some instructions.

    Raises:
        UsageError: the base view is among them.
        InputError: there is none of an instruction.
    """
    known = {view.key.instruction: view for view in store.views.all()}
    wanted = dict.fromkeys(instruction.strip() for instruction in instructions)
    if "" in wanted:
        raise UsageError("The base view cannot be dropped.", hint="Searches under a new instruction start from it.")
    for instruction in wanted:
        if instruction not in known:
            raise InputError(f"There is no view of {instruction!r}.", hint="`retriever views` lists them.")
    return [known[instruction] for instruction in wanted]


def drop_views(store: Store, folder: Path, views: Iterable[View]) -> None:
    """Remove views with their vectors, words and files."""
    with store.transaction():
        for view in views:
            store.views.drop(view.view_id)
    clear_dropped(store, folder)


def clear_dropped(store: Store, folder: Path) -> None:
    """Remove the files of views that are gone: those of a drop, and those that a killed one left."""
    known = {view.view_id for view in store.views.all()}
    for old in sorted((folder / "views").glob("*")):
        if old.is_dir() and old.name.isdecimal() and int(old.name) not in known:
            remove_other_generations(old, ())
            with suppress(OSError):  # something lies there that is not ours
                old.rmdir()
    for generation in store.generations.obsolete():
        if generation.view_id not in known:
            store.generations.forget(generation.generation_id)
