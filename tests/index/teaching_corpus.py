"""A corpus whose moods can be taught, and what is read back of a view."""

import sqlite3

import numpy as np
from index_fakes import DIM, FAULT, KEYWORDS, MOOD, PRODUCT

from retriever.core.requests import SearchOptions
from retriever.core.types import Document
from retriever.store.database import DATABASE

GOOD = frozenset(KEYWORDS[MOOD][:8])
BUDGET = SearchOptions(rounds=1, token_budget=60, prompt_tokens=0)


def text(number):
    """Texts of which every mood word is in some, and half answer with one of the good ones."""
    words = (KEYWORDS[kind][number * step % DIM] for kind, step in ((PRODUCT, 3), (MOOD, 5), (FAULT, 7)))
    return f"{' '.join(words)} n{number}"


def mood(said):
    return "good" if GOOD.intersection(said.split()) else "bad"


CORPUS = [Document(f"d{number:02}", text(number)) for number in range(96)]
EXAMPLES = [(one.id, mood(one.text)) for one in CORPUS[:32]]


def vectors(index, view_id):
    store = index._opened.store
    ids = store.vectors.held(view_id)
    return dict(zip(ids.tolist(), store.vectors.get(view_id, ids).embeddings, strict=True))


def answers_apart(index):
    """The mean cosine of the view that is shown between texts of one answer, less that between texts of two."""
    material = index.cluster(MOOD, k=2).material
    labels = np.array([mood(one.text) for one in material.documents])
    cosines, same = material.vectors @ material.vectors.T, labels[:, None] == labels
    return float(cosines[same].mean() - cosines[~same].mean())


def change(index, sql):
    """Close an index and change rows of its database, as damage does."""
    index.close()
    with sqlite3.connect(index.path / DATABASE) as raw:
        assert raw.execute(sql).rowcount
