"""Which documents of an index are meant: those that a filter accepts, those of some ids, or all."""

from collections.abc import Collection

import numpy as np

from retriever.core.errors import InputError
from retriever.core.types import Document, Ids
from retriever.store.database import Store
from retriever.store.filters import Filter


def selected_contents(store: Store, where: Filter | None, ids: Collection[str] | None) -> Ids:
    """Return the content ids of the texts that have a document of the filter and a document of the ids, ascending.

    None stands for all documents; ids may be of parts, and unknown ones are left out.

    Raises:
        FilterError: the filter names an unknown field.
    """
    documents = store.documents
    if ids is None:
        return documents.live_contents() if where is None else documents.matching(where)
    chosen = documents.contents_of(ids)
    return chosen if where is None else np.intersect1d(chosen, documents.matching(where))


def selected_documents(store: Store, where: Filter | None, ids: Collection[str] | None) -> list[Document]:
    """Return the embedded documents that the filter accepts and that are among the ids, in order.

    Arguments and errors as for `selected_contents`.
    """
    with store.snapshot():
        groups = store.documents.expand(selected_contents(store, where, ids), where).values()
    return sorted((document for group in groups for document in group if is_among(document, ids)), key=place)


def is_among(document: Document, ids: Collection[str] | None) -> bool:
    """Return whether a document is meant by some ids: by its own, or by its parent's."""
    return ids is None or document.id in ids or document.parent_id in ids


def place(document: Document) -> tuple[str, int]:
    """Return what documents are sorted by: their id; parts by that of their parent and their place in it."""
    return document.parent_id, document.number


def require_fitting(store: Store, where: Filter | None) -> None:
    """Say what is wrong with a filter that no document matches; every document's metadata is looked at.

    Raises:
        FilterError: it compares fields with values of another type than they hold.
    """
    error = None if where is None else where.misfit(store.documents.fields(), store.documents.types.held)
    if error is not None:
        raise error


def nothing_matches(store: Store, where: Filter | None = None) -> InputError:
    """Return the error of a selection without documents.

    Raises:
        FilterError: the filter compares fields with values of another type than they hold.
    """
    require_fitting(store, where)
    if not len(store.documents):
        return InputError("The index holds no documents.", hint="Add some with `retriever index CORPUS`.")
    if where is not None and where.known is not None:
        return InputError(f"No document matches. {where.known.sentence}", hint="Loosen --where, or read more texts.")
    return InputError("No document matches.", hint="Loosen --where; `retriever status` shows what the index holds.")
