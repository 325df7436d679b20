"""Documents as programs hold them: mappings, strings, tables, documents of other libraries; read as a file's rows are.

Places count items, and rows of tables, from 1.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from retriever.core.errors import InputError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.text import is_blank
from retriever.core.types import JSON, BadRow, Document
from retriever.corpus.convert import Converter
from retriever.corpus.fields import FieldNames
from retriever.corpus.markup import Markup
from retriever.corpus.plain import Plain
from retriever.corpus.readers import read_given
from retriever.corpus.rows import Notes, Reading, ReadingOptions, Row, first_of
from retriever.corpus.survey import SAMPLE, Interpretation, survey
from retriever.index.tables import ArrowTable, is_table, table_rows

NAME = "documents"
"""Stands in the place of a file's name."""

_TAKEN = "Documents are taken as a list, generator or table of Document, mappings with a text, or strings."
_HINTS: dict[Any, str] = {
    str | PurePath: "Give a list of texts; a file is read by retriever.read_documents([path]).",
    Mapping: "Give a list, with a mapping for each document.",
    Document: "Give a list of documents.",
}


@runtime_checkable
class LangChainDocument(Protocol):
    """A document of LangChain."""

    @property
    def id(self) -> str | None:
        """Its id, if it has one."""

    @property
    def page_content(self) -> str:
        """Its text."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All else."""


@runtime_checkable
class LlamaIndexNode(Protocol):
    """A document or a node of LlamaIndex."""

    @property
    def node_id(self) -> str:
        """Its id."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All else."""

    def get_content(self) -> str:
        """Return its text."""


Item: TypeAlias = Document | BadRow | Mapping[str, Any] | str | LangChainDocument | LlamaIndexNode | ArrowTable
Given: TypeAlias = Iterable[Item] | ArrowTable
"""The documents that `retriever.workspace.Index.add` takes."""


def read_items(given: Given, fields: FieldNames, options: ReadingOptions) -> Reading[Document | BadRow]:
    """Read what a program gives as documents and bad rows; see `retriever.workspace.Index.add`.

    Raises:
        UsageError: it is nothing of that kind; of an iterator, raised behind the items before it.
        InputError: there are rows, and none of the first thousand can be a document.
    """
    _require(given)
    notes = Notes(NAME)
    plain = Plain(notes.add, composes=not options.raw)
    first, rest = first_of(_items(given, plain), SAMPLE)
    if not first:
        rest = iter(list(rest))  # an error of the first item is raised before anything is made
    seen = _items(given, plain) if hasattr(given, "__len__") else iter(first)
    rows = (item.values for item in seen if isinstance(item, Row) and isinstance(item.raw, Mapping) and item.values)
    convert = _conversion(rows, first, fields, options, notes)
    made = [convert(item) for item in first]
    bad = next((row for row in made if isinstance(row, BadRow)), None)
    if bad is not None and all(isinstance(item, Row) for item in first) and not any(map(_is_document, made)):
        raise InputError(f"No item can be read; item {bad.line}: {bad.reason}.", hint="Nothing was indexed.")
    documents: Iterator[Document | BadRow] = chain(made, map(convert, rest))
    if not options.raw and any(map(_is_document, first)):
        read = read_given(documents)
        for note in read.notes:
            notes.add(note.removeprefix(f"{NAME}: "))
        documents = read
    return Reading(documents, [notes])


def _conversion(
    rows: Iterable[Mapping[str, object]],
    first: Sequence[Row | Document | BadRow],
    fields: FieldNames,
    options: ReadingOptions,
    notes: Notes,
) -> Callable[[Row | Document | BadRow], Document | BadRow]:
    """Return what makes a document of an item, by the fields of some rows; strings have ids made of them."""
    interpretation = Interpretation(fields)
    if not options.raw and any(isinstance(item, Row) and isinstance(item.raw, Mapping) for item in first):
        interpretation = survey(rows, fields, options)
    for note in interpretation.notes:
        notes.add(note)
    if not options.raw and any(isinstance(item, Row) and isinstance(item.raw, str) for item in first):
        markup = Markup()
        for item in first:
            markup.see(item.raw if isinstance(item, Row) else None)
        interpretation = replace(interpretation, markup=markup)
    of_rows, of_texts = Converter(options), Converter(options)
    of_rows.begin_file(NAME, interpretation, notes)
    of_texts.begin_file(NAME, Interpretation(FieldNames(), markup=interpretation.markup), notes)

    def convert(item: Row | Document | BadRow) -> Document | BadRow:
        if not isinstance(item, Row):
            return item
        converter = of_texts if isinstance(item.raw, str) else of_rows
        made = converter.convert(interpretation.interpreted(item))
        return _in_python(made) if isinstance(made, BadRow) else made

    return convert


def _is_document(item: object) -> bool:
    return isinstance(item, Document)


def _in_python(row: BadRow) -> BadRow:
    """Return a bad row whose reason names arguments in place of a command's options."""
    reason = row.reason.replace("--text-field", "text_field=").replace("--id-field", "id_field=")
    return replace(row, reason=reason)


def _require(given: Given) -> None:
    """Refuse what holds no documents, and every item of a list that is none."""
    if isinstance(given, str | bytes | Mapping | Document) or not (is_table(given) or isinstance(given, Iterable)):
        hint = next((hint for kind, hint in _HINTS.items() if isinstance(given, kind)), _TAKEN)
        raise UsageError(f"documents is of type {type(given).__name__}.", hint=hint)
    if isinstance(given, Collection) and not is_table(given):
        for number, item in enumerate(given, 1):
            _check(number, item)


def _check(number: int, item: object) -> None:
    """Raise `UsageError` for what is no document."""
    if isinstance(item, Document):
        wrong = {"id": (item.id, str), "text": (item.text, str), "metadata": (item.metadata, Mapping)}
        for name, (value, kind) in wrong.items():
            if not isinstance(value, kind):
                said = f"The {name} of item {number} is of type {type(value).__name__}."
                raise UsageError(said, hint="Give a mapping." if kind is Mapping else "Give a string.")
    elif not (isinstance(item, BadRow | Mapping | str | LangChainDocument | LlamaIndexNode) or is_table(item)):
        raise UsageError(f"Item {number} of documents is of type {type(item).__name__}.", hint=_TAKEN)


def _items(given: Given, plain: Plain) -> Iterator[Row | Document | BadRow]:
    """Yield each item as a row, whose `raw` is a string where it is one, or as a document."""
    equal = Counter[str]()
    for number, item in enumerate(_flat(given), 1):
        _check(number, item)
        if isinstance(item, str):
            yield Row(number, str(item), {"text": str(item)})
        elif isinstance(item, Mapping):
            values = plain.fields(item)
            yield Row(number, values, values, sparse=True)
        elif isinstance(item, Document):
            yield replace(item, metadata=cast("Mapping[str, JSON]", plain.fields(item.metadata)))
        elif isinstance(item, BadRow):
            yield item
        else:
            yield _of_another(number, item, equal, plain)


def _flat(given: Any) -> Iterator[Any]:  # noqa: ANN401 - a `Given`
    """Yield the items, and the rows of tables among them."""
    for item in [given] if is_table(given) else given:
        if is_table(item):
            yield from table_rows(item)
        else:
            yield item


def _of_another(
    number: int, item: LangChainDocument | LlamaIndexNode, equal: Counter[str], plain: Plain
) -> Document | BadRow:
    """Return a document of another library; one without an id gets one of its text and metadata, as rows do."""
    if isinstance(item, LangChainDocument):
        id, text = item.id, item.page_content
    else:
        id, text = None if _is_made_up(item) else item.node_id, item.get_content()
    metadata = cast("Mapping[str, JSON]", plain.fields(item.metadata))
    if not isinstance(text, str) or is_blank(text):
        return BadRow(NAME, number, id, "the text is empty", "")
    if id is None:
        id = json_hash({"text": text, "metadata": metadata})[:16]
        equal[id] += 1
        id = id if equal[id] == 1 else f"{id}-{equal[id]}"
    return Document(id, text, metadata)


def _is_made_up(node: Any) -> bool:  # noqa: ANN401 - of LlamaIndex
    """Return whether a node has a random id for want of one that somebody named."""
    return "id_" in getattr(type(node), "model_fields", ()) and "id_" not in node.model_fields_set
