"""Corpus files as documents or as rows of fields: how commands and pages read what is to be indexed."""

from collections.abc import Iterable

from retriever.core.types import BadRow, Document
from retriever.corpus.encodings import ENCODINGS, UTF8, EncodingError, find_foreign, find_utf16, require_encoding
from retriever.corpus.fields import FieldNames
from retriever.corpus.readers import count_rows, read_documents, read_fields, read_given
from retriever.corpus.rows import DEEPEST, LONGEST_ID, Reading, ReadingOptions

__all__ = [
    "DEEPEST",
    "ENCODINGS",
    "LONGEST_ID",
    "UTF8",
    "EncodingError",
    "FieldNames",
    "Reading",
    "ReadingOptions",
    "as_read",
    "count_rows",
    "find_foreign",
    "find_utf16",
    "read_documents",
    "read_fields",
    "require_encoding",
]


def as_read(documents: Iterable[Document | BadRow], *, raw: bool = False) -> Iterable[Document | BadRow]:
    """Return documents as reading them from a file gives them; those of files, and raw ones, are that already."""
    return documents if raw or isinstance(documents, Reading) else read_given(documents)
