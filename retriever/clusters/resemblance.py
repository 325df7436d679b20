"""Whether clusters under a question are much those of the texts without it, or under another question."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from retriever.clusters.material import read_material
from retriever.core.contexts import single_threaded
from retriever.index.sources.source import Source
from retriever.store.database import Store

if TYPE_CHECKING:
    from retriever.clusters.clustering import Clustering

LEAST = 0.5
"""Agreement from which two clusterings are much the same.

docs/evaluation.md (verdict) has the agreements of 24 questions that it was set on.
"""

_NEARLY = 0.75
_TEXTS = 1000  # that are compared, at even distances
_RUNS = 4  # of k-means


@dataclass(frozen=True, slots=True)
class Resemblance:
    """The clustering that another is much the same as.

    Attributes:
        instruction: the question of the other; empty for the texts without a question.
        agreement: adjusted mutual information of the two; 0 by chance, 1 where they are the same.
    """

    instruction: str
    agreement: float

    @property
    def sentence(self) -> str:
        """The other clustering, and what follows for this one."""
        groups = f"{'nearly' if self.agreement >= _NEARLY else 'much'} the same groups"
        agreement = f"(agreement {self.agreement:.2f} of 1)"
        if not self.instruction:
            return f"Without the question the texts fall into {groups} {agreement}: these probably do not answer it."
        return (
            f"Asked “{self.instruction}”, the model makes {groups} {agreement}: they may answer that question, this, "
            "or neither."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {**asdict(self), "agreement": round(self.agreement, 4)}


def resemblance(store: Store, made: "Clustering", others: Iterable[Source]) -> Resemblance | None:
    """Return the first clustering, of another view and as many clusters, that clusters are much the same as.

    None for none. The measure is the adjusted mutual information (Vinh, Epps and Bailey, JMLR 2010).

    Args:
        store: of the index.
        made: the clusters.
        others: views to compare with, in the order of their weight; a view that lacks a compared text is passed over.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_mutual_info_score

    k, documents = len(made.clusters), made.material.documents
    if k < 2:
        return None
    rows = np.unique(np.linspace(0, len(documents) - 1, _TEXTS).astype(np.int64))
    ids = [documents[row].id for row in rows]
    for other in others:
        material = read_material(store, other, made.request.where, frozenset(ids))
        vectors = material.vectors if [document.id for document in material.documents] == ids else ()
        if len(np.unique(vectors, axis=0)) < k:
            continue
        with single_threaded():
            against = KMeans(k, n_init=_RUNS, random_state=0).fit_predict(vectors)
        agreement = float(adjusted_mutual_info_score(made.labels[rows], against))
        if agreement >= LEAST:
            return Resemblance(other.instruction, agreement)
    return None
