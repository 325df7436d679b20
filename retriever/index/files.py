"""Corpus files as documents or as rows of fields: how commands and pages read what is to be indexed."""

from collections.abc import Iterable

from retriever.core.types import BadRow, Document
from retriever.corpus.encodings import ENCODINGS as ENCODINGS
from retriever.corpus.encodings import UTF8 as UTF8
from retriever.corpus.encodings import EncodingError as EncodingError
from retriever.corpus.encodings import find_foreign as find_foreign
from retriever.corpus.encodings import find_utf16 as find_utf16
from retriever.corpus.encodings import require_encoding as require_encoding
from retriever.corpus.fields import FieldNames as FieldNames
from retriever.corpus.readers import count_rows as count_rows
from retriever.corpus.readers import read_documents as read_documents
from retriever.corpus.readers import read_fields as read_fields
from retriever.corpus.readers import read_given
from retriever.corpus.rows import DEEPEST as DEEPEST
from retriever.corpus.rows import LONGEST_ID as LONGEST_ID
from retriever.corpus.rows import Reading as Reading
from retriever.corpus.rows import ReadingOptions as ReadingOptions


def as_read(documents: Iterable[Document | BadRow], *, raw: bool = False) -> Iterable[Document | BadRow]:
    """Return documents as reading them from a file gives them; those of files, and raw ones, are that already."""
    return documents if raw or isinstance(documents, Reading) else read_given(documents)
