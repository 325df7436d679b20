"""Reading a sample of a corpus for a question that a language model answers, and what the sample says of all texts.

At least `sampling.UNIFORM` texts are drawn evenly; the rest of a budget goes where the answer is least sure, once some
are read. Texts that searches had read count as they are. docs/decisions/sampled-answers.md has the mathematics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.estimates import Estimate, share
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.arithmetic.prediction import UNREAD, Prediction, agreement, outcome, predict
from retriever.clusters.arithmetic.sampling import UNIFORM, Sample, draw, weigh
from retriever.clusters.budget import Read
from retriever.clusters.material import Material
from retriever.clusters.references import NONE, ordinal
from retriever.core.errors import UsageError
from retriever.core.results import OnIndexing
from retriever.core.types import Ids
from retriever.index.completing import complete_with
from retriever.index.opened import Opened
from retriever.index.selection import selected_contents
from retriever.index.sources.catalog import Listed, serving
from retriever.store.answers import GIVEN, DrawnText
from retriever.store.filters import Filter

_FEW_GROUPS = 8  # of the first answers, between which other texts are unsure


@dataclass(frozen=True, slots=True)
class Sampled:
    """How much of the texts was read, and what that says of all of them.

    Attributes:
        reader: name of who read.
        texts: how many there are.
        read: how many of them were read.
        drawn: how many of those were drawn at random.
        agreement: the share of texts that the answer predicted from stored vectors is right for, estimated on texts
            that the model did not see; None where too few were read to tell.
        commonest: the share of the commonest answer, for comparison.
        predicted: whether predictions are used: they are surely better than the commonest answer.
        shares: by cluster, its share of all texts; `NONE` for that of none.
        evenly: ids of the documents whose texts were drawn with equal chances and read. Not in the JSON object.
    """

    reader: str
    texts: int
    read: int
    drawn: int
    agreement: float | None = None
    commonest: float | None = None
    predicted: bool = False
    shares: Mapping[int, Estimate] = field(default_factory=dict)
    evenly: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether all texts were read."""
        return self.read == self.texts

    @property
    def sentence(self) -> str:
        """What was read by whom, and whether the rest was predicted."""
        by = "handed in" if self.reader == GIVEN else f"read by {self.reader}"
        if self.whole:
            return f"All {self.texts} texts were {by}."
        rest = "shares of all texts are estimated from these"
        if self.predicted and self.agreement is not None:
            rest += f" and from predictions that are right for {self.agreement:.0%}"
        return f"{self.read} of {self.texts} texts were {by}, {self.drawn} of them drawn at random; {rest}."

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "reader": self.reader,
            "texts": self.texts,
            "read": self.read,
            "drawn": self.drawn,
            "predicted": self.predicted,
            "agreement": _rounded(self.agreement),
            "commonest": _rounded(self.commonest),
            "shares": {str(ordinal(number)): estimate.to_json() for number, estimate in self.shares.items()},
        }


def read_by_model(opened: Opened, shown: Listed) -> bool:
    """Return whether a language model reads texts for a view; answers that are handed in alone are of none."""
    return shown.costly and opened.sources.encoder_name(shown) != GIVEN


def read_sample(
    opened: Opened,
    instruction: str,
    where: Filter | None,
    ids: frozenset[str] | None,
    read: Read,
    progress: OnIndexing | None,
) -> None:
    """Let a language model that serves an instruction read a sample of some documents.

    What was read before counts, and a larger budget adds to it.

    Args:
        opened: the index.
        instruction: the question.
        where: only documents that this filter accepts; None for all.
        ids: the documents; None for all.
        read: texts to read; ``all`` draws no sample.
        progress: called with the growing report.

    Raises:
        UsageError: the budget is below 1.
    """
    if read != "all" and read < 1:
        raise UsageError(f"{read} texts are to be read.", hint="Give a number from 1, or all.")
    shown = serving(opened.sources.listed(), instruction)
    if shown is None or not read_by_model(opened, shown):
        return
    population = selected_contents(opened.store, where, ids)
    answered = opened.sources.open(shown).contents(opened.sources.held)
    wanted = len(population) if read == "all" else min(read, len(population))
    opened.permit.expect(wanted - (0 if answered is None else len(np.intersect1d(answered, population))))

    def read_these(contents: Ids) -> None:
        complete_with(opened, [instruction], contents, part=True, progress=progress)

    view_id = shown.view.view_id
    if read == "all":
        read_these(population[~_held(opened, view_id, population)])
        return
    for first in (True, False):
        sample, held = _stored_sample(opened, view_id, population), _held(opened, view_id, population)
        size = min(UNIFORM, read) - int(sample.random.sum()) if first else wanted - int(held.sum())
        if size > 0:
            unsure = None if first else _unsure(opened, view_id, population, held)
            grown = draw(sample, size, known=held, unsure=unsure)
            rows = np.flatnonzero((grown.rounds > 0) & (sample.rounds == 0))
            texts = [DrawnText(int(population[row]), int(grown.rounds[row]), float(grown.chances[row])) for row in rows]
            opened.store.samples.put(view_id, _name(population), texts)
            sample = grown
        read_these(population[(sample.rounds > 0) & ~held])  # what was drawn before and not read, too


def sampled(
    opened: Opened,
    shown: Listed,
    population: Ids,
    material: Material,
    assignments: Mapping[str, int],
    clusters: Sequence[int],
) -> Sampled:
    """Return what the texts that were read say of all.

    Args:
        opened: the index.
        shown: the view, of answers.
        population: the contents of all texts, ascending.
        material: the texts that were read.
        assignments: the cluster of each by id, `NONE` for none.
        clusters: their numbers.
    """
    sample = _stored_sample(opened, shown.view.view_id, population)
    contents = opened.store.documents.known([row.text for row in material.documents])  # by text
    numbers = {contents[row.text]: assignments[row.id] for row in material.documents}
    places = {number: place for place, number in enumerate([*clusters, NONE])}
    labels = {content: places[number] for content, number in numbers.items()}
    answers = np.array([labels.get(content, UNREAD) for content in population.tolist()], dtype=np.int64)
    evenly = set(population[(sample.rounds == 1) & (sample.chances < 1)].tolist())
    read = answers != UNREAD
    if read.all():
        sample = Sample(np.ones(len(population), dtype=np.int64), np.ones(len(population)))
    weights = weigh(sample, read)
    prediction = None if read.all() else _predicted(opened, population, answers, len(places))
    judged = None if prediction is None else agreement(prediction, answers, weights)
    used = prediction if judged is not None and judged.better else None
    return Sampled(
        reader=opened.sources.encoder_name(shown),
        texts=len(population),
        read=int(read.sum()),
        drawn=int(weights.random.sum()),
        agreement=None if judged is None else judged.predicted.value,
        commonest=None if judged is None else judged.commonest.value,
        predicted=used is not None,
        shares={number: share(outcome(answers, place, used), weights) for number, place in places.items()},
        evenly=frozenset(row.parent_id for row in material.documents if contents[row.text] in evenly),
    )


def _stored_sample(opened: Opened, view_id: int, population: Ids) -> Sample:
    """Return the sample that was drawn for a view from some contents, ascending."""
    sample = Sample.empty(len(population))
    for text in opened.store.samples.get(view_id, _name(population)):
        row = np.searchsorted(population, text.content_id)
        sample.rounds[row], sample.chances[row] = text.round, text.chance
    return sample


def _unsure(opened: Opened, view_id: int, population: Ids, held: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return how unsure the group of each text is, given those that are read; None where nothing can be predicted."""
    if not held.any():
        return None
    stored = opened.store.vectors.get(view_id, population[held])
    groups = spherical_kmeans(stored.embeddings, min(_FEW_GROUPS, len(stored.embeddings)))
    answers = np.full(len(population), UNREAD, dtype=np.int64)
    answers[np.searchsorted(population, stored.content_ids)] = groups.labels
    prediction = _predicted(opened, population, answers, groups.k)
    return None if prediction is None else prediction.unsure


def _predicted(opened: Opened, population: Ids, answers: NDArray[np.int64], classes: int) -> Prediction | None:
    """Predict answers from the vectors of the views that have every text, the base view's first."""
    base = opened.sources.view(opened.sources.base)
    views = [] if base is None else [base.view_id]
    views += [listed.view.view_id for listed in opened.sources.listed() if listed.row is None and listed.instruction]
    blocks = (opened.store.vectors.get(view_id, population) for view_id in views)
    whole = [block.embeddings for block in blocks if len(block.content_ids) == len(population)]
    return predict(whole, answers, classes)


def _held(opened: Opened, view_id: int, population: Ids) -> NDArray[np.bool_]:
    return np.isin(population, opened.store.vectors.held(view_id))


def _name(population: Ids) -> bytes:
    return sha256(population.tobytes()).digest()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
