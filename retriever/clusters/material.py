"""The material of a clustering: the embedded documents, row by row, as a view has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from retriever.core.fingerprint import content_hash
from retriever.core.languages import ENGLISH, Language
from retriever.core.types import Document, Embeddings
from retriever.core.words import shown_words
from retriever.index.languages import with_others
from retriever.index.selection import is_among, place, selected_contents
from retriever.index.sources.source import Source
from retriever.store.database import Store
from retriever.store.filters import Filter


@dataclass(frozen=True)
class Material:
    """The documents that are clustered, row by row, with their vectors and the model's words.

    Attributes:
        documents: by ascending id; parts in the order of their document.
        vectors: (n, dim) theirs in the view; (n, 0) where there are none.
        answers: the model's words for each, as `words.shown_words` has them.
        answer_words: how many of them, from the first, are answers as somebody named them.
        contents: ids of the contents that the rows are of; empty where they are of no index.
        language: of the texts, with the others that they are in.
    """

    documents: Sequence[Document]
    vectors: Embeddings
    answers: Sequence[Sequence[str]]
    answer_words: int = 0
    contents: Sequence[int] = ()
    language: Language = ENGLISH

    def part(self, rows: Sequence[int]) -> "Material":
        """Return some of the rows, in this order; one may come several times."""
        documents, answers = [self.documents[row] for row in rows], [self.answers[row] for row in rows]
        return Material(documents, self.vectors[rows], answers, self.answer_words, language=self.language)

    @property
    def phrases(self) -> list[str] | None:
        """The one answer of every row, a whole phrase; None where rows have other words than an answer."""
        if self.answer_words != 1 or any(len(words) != 1 for words in self.answers):
            return None
        return [words[0] for words in self.answers]

    @property
    def units(self) -> int | None:
        """How many there are where they are parts of documents; None where they are whole."""
        return len(self.documents) if any(document.part for document in self.documents[:1]) else None

    @cached_property
    def text_keys(self) -> dict[str, str]:
        """Keys that tell the text of every row from others, by the row's id, as a saved clustering keeps them."""
        return {document.id: text_key(document.text) for document in self.documents}

    @cached_property
    def parents(self) -> list[str]:
        """The ids of the documents that the rows are of."""
        return [document.parent_id for document in self.documents]

    def once(self, labels: Sequence[int]) -> list[int]:
        """Return the rows that are the first of their document in their cluster, given the cluster of every row."""
        first: dict[tuple[str, int], int] = {}
        for row, key in enumerate(zip(self.parents, labels, strict=True)):
            first.setdefault(key, row)
        return list(first.values())


def text_key(text: str) -> str:
    """Return what tells a text from others in what is saved."""
    return content_hash(text).hex()[:16]


def read_material(
    store: Store, shown: Source, where: Filter | None = None, ids: frozenset[str] | None = None
) -> Material:
    """Return the documents that have a vector in a view, those of the filter and the ids, by ascending id."""
    contents = selected_contents(store, where, ids)
    stored = store.vectors.get(shown.view_id, contents)
    rows = {content_id: row for row, content_id in enumerate(stored.content_ids.tolist())}
    documents = [
        (document, rows[content_id])
        for content_id, group in store.documents.expand(stored.content_ids, where).items()
        for document in group
        if is_among(document, ids)
    ]
    documents.sort(key=lambda pair: place(pair[0]))
    order = np.array([row for _, row in documents], dtype=np.int64)
    answers = [
        shown_words(stored.words[row], document.text, shown.instruction, shown.answer_words)
        for document, row in documents
    ]
    of = stored.content_ids[order].tolist()
    texts, vectors = [document for document, _ in documents], stored.embeddings[order]
    language = with_others(store.words.language, texts)
    return Material(texts, vectors, answers, shown.answer_words, of, language)
