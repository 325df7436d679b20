"""Subtract from a query's vector what all documents answer to an instruction, which tells none of them from another.

Under an instruction all vectors have much in common, the manner of the answer, and a query has it too. So a document
that answers nothing in particular is near to every query. With m the mean of the view's vectors, a search orders
documents d by (q - (m . m) m) . d, which is the cosine less what any document has by being typical. m . m is the mean
cosine of random pairs: where documents have little in common, little is taken off. Without an instruction it does a
little harm and is left out.

Related: Mu and Viswanath, "All-but-the-Top: Simple and Effective Postprocessing for Word Representations", ICLR 2018,
take the mean off all vectors. Here documents keep theirs: how far they are from it says that they answer at all.
"""

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Ids
from retriever.store.database import Store
from retriever.store.views import View

SAMPLE = 1000
"""Most vectors whose mean is taken."""

FIRST = 16
"""Texts of the sample that a view which is filled as needed reads before all others."""

LEAST = 8
"""Fewest vectors whose mean says something."""

FEW = 30
"""Texts; in an index of fewer none is typical."""

_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 over the golden ratio: ids in a row go far apart


def sample(contents: Ids, size: int) -> Ids:
    """Return some of the contents (n,), at most ``size``, of all ages, in an order of their own.

    The same for the same contents, and nearly the same when a few come or go.
    """
    keys = contents.astype(np.uint64) * _SCATTER
    return contents[np.argsort(keys, kind="stable")[:size]]


def unbiased(sample: Ids, held: NDArray[np.bool_]) -> Ids:
    """Return the contents of a sample (n,) that a view holds, as far as earlier queries have no say in which they are.

    A view that holds most of the sample lacks what came last, and the others stand for it. Of a view that searches
    fill, it is the first of the sample up to the first that is lacking.
    """
    if 2 * held.sum() >= len(sample):
        return sample[held]
    return sample[: int(held.argmin())]


def shift(store: Store, view: View, contents: Ids) -> NDArray[np.float32]:
    """Compute the vector to subtract from queries' vectors (dim,) from the mean of some contents (n,) of a view.

    It is zero where these are too few to show it.
    """
    if len(contents) < LEAST:
        return np.zeros(view.key.dim, dtype=np.float32)
    mean = store.vectors.get(view.view_id, contents).embeddings.mean(axis=0)
    return np.asarray((mean @ mean) * mean, dtype=np.float32)
