"""Corpus files as documents or as rows of fields: how commands and pages read what is to be indexed."""

from retriever.corpus.encodings import ENCODINGS, UTF8, EncodingError, find_foreign, require_encoding
from retriever.corpus.readers import count_rows, read_documents, read_fields
from retriever.corpus.rows import FieldNames, Limits

__all__ = [
    "ENCODINGS",
    "UTF8",
    "EncodingError",
    "FieldNames",
    "Limits",
    "count_rows",
    "find_foreign",
    "read_documents",
    "read_fields",
    "require_encoding",
]
