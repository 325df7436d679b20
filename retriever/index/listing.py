"""Documents of an index as rows that are read when they are needed, and as a table with what is known of a question."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retriever.core.errors import InputError, RetrieverError
from retriever.core.types import Document
from retriever.core.words import shown_words
from retriever.corpus.layout import distinct
from retriever.index.opened import Opened
from retriever.index.selection import require_fitting
from retriever.index.sources.source import Source
from retriever.store.filters import Filter
from retriever.store.views import View

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS = 1000  # whose words are read at a time

Groups = Callable[[], Mapping[str, Mapping[str, str | Sequence[str]]]]
"""Gives the groups of documents by their ids, of each saved clustering by its name."""


class Documents:
    """Documents of an index, in the order of their ids.

    They are read a few hundred at a time, whenever the object is iterated; what is changed meanwhile may be met. As a
    table they have a row each: id, text, and a column for every field of metadata. Under an instruction there are also
    ``words``, what the model answered, null where a text was not read, and a column for every saved clustering of the
    question, with the name of the document's group, null where it fits none. In an index of sentences, and where
    several categories are allowed, that is a list of names. Of a name that is there twice, the second is ``text (2)``.

    Whatever reads Arrow streams takes the object: ``polars.DataFrame(index.documents())``.

    Args:
        opened: the index.
        where: a filter; None for all.
        instruction: whose words and groups are columns; None for none.
        groups: gives its groups.

    Raises:
        FilterError: the filter names an unknown field.
        InputError: no text was read under the instruction.
    """

    def __init__(self, opened: Opened, where: Filter | None, instruction: str | None, groups: Groups) -> None:
        self._opened, self._where, self._instruction, self._groups = opened, where, instruction, groups
        self._store = opened.store
        self._store.documents.accepted(where)  # refuses a field that is unknown
        self._source = None if instruction is None else opened.sources.of(instruction)
        self._view = None if self._source is None else opened.sources.view(self._source)
        if instruction is not None and self._view is None:
            raise InputError(
                f"No text was read under {instruction!r}.",
                hint="index.views() lists the questions; index.upkeep.complete([QUESTION]) reads all texts under one.",
            )

    def __iter__(self) -> Iterator[Document]:
        document = None
        for document in self._store.documents.accepted(self._where):
            yield document
        if document is None:
            require_fitting(self._store, self._where)

    def to_arrow(self) -> "pa.Table":
        """Return them as a table of pyarrow; a field with values of several types is one of strings, as JSON.

        Documents that came since a clustering was saved are put to their groups, which embeds their texts.
        """
        import pyarrow as pa

        groups = {} if self._instruction is None else self._groups()  # may write
        with self._store.snapshot():
            documents = list(self)
            words = None if self._source is None or self._view is None else self._words(self._source, self._view)
        ids, texts = [document.id for document in documents], [document.text for document in documents]
        columns = [("id", pa.array(ids, pa.string())), ("text", pa.array(texts, pa.string()))]
        for field in dict.fromkeys(name for document in documents for name in document.metadata):
            columns.append((field, _column([document.metadata.get(field) for document in documents])))
        if words is not None:
            columns.append(("words", pa.array(map(words.get, ids), pa.list_(pa.string()))))
        for name, members in groups.items():
            several = any(not isinstance(group, str) for group in members.values())
            kind = pa.list_(pa.string()) if several else pa.string()
            columns.append((name, pa.array(map(members.get, ids), kind)))
        return pa.table([column for _, column in columns], names=distinct([name for name, _ in columns]))

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is not needed otherwise
        """Return them as a DataFrame of pandas, as `to_arrow` does.

        Raises:
            RetrieverError: pandas is missing.
        """
        table = self.to_arrow()
        try:
            return table.to_pandas()
        except ModuleNotFoundError as error:
            raise RetrieverError("The package 'pandas' is missing.", hint="pip install pandas") from error

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as an Arrow stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _words(self, source: Source, view: View) -> dict[str, list[str]]:
        """Return the distinct words of documents by their ids, those of sentences in their order."""
        store = self._store
        contents = store.documents.live_contents() if self._where is None else store.documents.matching(self._where)
        parts: dict[str, list[tuple[int, list[str]]]] = {}
        for start in range(0, len(contents), _TEXTS):
            known = store.vectors.words(view.view_id, contents[start : start + _TEXTS])
            for content_id, group in store.documents.expand(list(known), self._where).items():
                for each in group:
                    shown = shown_words(known[content_id], each.text, source.instruction, source.answer_words)
                    parts.setdefault(each.parent_id, []).append((each.number, shown))
        return {
            id: list(dict.fromkeys(word for _, words in sorted(found) for word in words)) for id, found in parts.items()
        }


def _column(values: Sequence[object]) -> Any:  # noqa: ANN401 - of pyarrow
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        texts = (value if value is None or isinstance(value, str) else json.dumps(value) for value in values)
        return pa.array(texts, pa.string())
