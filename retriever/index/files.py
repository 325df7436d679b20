"""Corpus files as documents or as rows of fields: how commands and pages read what is to be indexed."""

from retriever.core.types import BadRow, Document
from retriever.corpus.encodings import ENCODINGS as ENCODINGS
from retriever.corpus.encodings import UTF8 as UTF8
from retriever.corpus.encodings import EncodingError as EncodingError
from retriever.corpus.encodings import find_foreign as find_foreign
from retriever.corpus.encodings import find_utf16 as find_utf16
from retriever.corpus.encodings import require_encoding as require_encoding
from retriever.corpus.fields import FieldNames as FieldNames
from retriever.corpus.readers import read_documents as read_documents
from retriever.corpus.readers import read_fields as read_fields
from retriever.corpus.rows import DEEPEST as DEEPEST
from retriever.corpus.rows import LONGEST_ID as LONGEST_ID
from retriever.corpus.rows import Reading as Reading
from retriever.corpus.rows import ReadingOptions as ReadingOptions
from retriever.index.given import Given, read_items


def as_read(
    documents: Given, *, id_field: str | None = None, text_field: str | None = None, raw: bool = False
) -> Reading[Document | BadRow]:
    """Return what a program gives as reading it from a file gives it; what comes of a file is that already.

    Raises:
        UsageError, InputError: as `read_items`.
    """
    if isinstance(documents, Reading):
        return documents
    return read_items(documents, FieldNames(id_field, text_field), ReadingOptions(raw=raw))
