"""Reading a sample of a corpus for a question that a language model answers, and what the sample says of all texts.

The sample is all texts up to a place in an order that never changes (`arithmetic.sampling`). Texts that searches read
count towards a budget. docs/decisions/sampled-answers.md has the mathematics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.estimates import Estimate, share
from retriever.clusters.arithmetic.prediction import UNREAD, Prediction, agreement, outcome, predict
from retriever.clusters.arithmetic.sampling import Floats, Mask, Sample, due, permanent_numbers, threshold_for
from retriever.clusters.budget import Read
from retriever.clusters.material import Material
from retriever.clusters.references import NONE, ordinal
from retriever.core.errors import ConsentError, EncoderError, UsageError
from retriever.core.results import IndexingReport, OnIndexing
from retriever.core.types import Ids
from retriever.index.completing import ask
from retriever.index.forecast import counting
from retriever.index.opened import Opened
from retriever.index.selection import selected_contents
from retriever.index.sources.answers import Answers
from retriever.index.sources.source import Source
from retriever.store.answers import GIVEN
from retriever.store.database import Store
from retriever.store.filters import Filter

_EVERYTHING = ""  # the population of all texts
_MORE = 100  # texts that are advised to be read where those drawn are too few


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
        shares: by cluster, its share of all texts; `NONE` for that of none. A mixed cluster has none.
        evenly: ids of the documents whose texts were drawn and read. Not in the JSON object.
        missing: how many texts were drawn and have no answer: they came later, or the model gave none.
        fault: why the language model could not be asked about more texts; empty where it could.
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
    missing: int = 0
    fault: str = ""

    @property
    def whole(self) -> bool:
        """Whether all texts were read."""
        return self.read == self.texts

    @property
    def withheld(self) -> bool:
        """Whether nothing can be said of all texts: some were not read, and none of the others was drawn."""
        return not self.whole and not self.drawn

    @property
    def sentence(self) -> str:
        """Say what was read by whom and why no more, what is said of the rest, and what to do where nothing can be."""
        return f"{self._read} The reader cannot be asked: {self.fault}" if self.fault else self._read

    @property
    def _read(self) -> str:
        by = "handed in" if self.reader == GIVEN else f"read by {self.reader}"
        if self.whole:
            return f"All {self.texts} texts were {by}."
        said = f"{self.read} of {self.texts} texts were {by}, {self.drawn or 'none'} of them drawn at random"
        if self.missing:
            said += f", and {self.missing} more were drawn and have no answer"
        return f"{said}; {self._rest}."

    @property
    def _rest(self) -> str:
        if any(estimate.interval for estimate in self.shares.values()):
            rest = "shares of all texts are estimated from those drawn"
            if self.predicted and self.agreement is not None:
                rest += f" and from predictions that are right for {self.agreement:.0%}"
            return rest
        wanted = self.read + self.missing + _MORE
        more = "all" if wanted >= self.texts else str(wanted)
        return "they are too few for shares of all texts" + ("" if self.reader == GIVEN else f": use `--read {more}`")

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "reader": self.reader,
            "texts": self.texts,
            "read": self.read,
            "drawn": self.drawn,
            "missing": self.missing,
            "fault": self.fault or None,
            "predicted": self.predicted,
            "agreement": _rounded(self.agreement),
            "commonest": _rounded(self.commonest),
            "shares": {str(ordinal(number)): estimate.to_json() for number, estimate in self.shares.items()},
        }


@dataclass(frozen=True, slots=True)
class Population:
    """The texts that a request is about.

    Attributes:
        contents: (n,) their content ids, ascending.
        name: by which their sample is kept; empty for all texts of the index.
    """

    contents: Ids
    name: str

    @classmethod
    def selected(cls, store: Store, where: Filter | None, ids: frozenset[str] | None) -> "Population":
        """Return the texts of the documents that a filter accepts and that are among some ids; None for all."""
        name = _EVERYTHING if where is None else where.expression.strip()
        if ids is not None:
            name = f"{sha256(repr(sorted(ids)).encode()).hexdigest()} {name}"
        return cls(selected_contents(store, where, ids), name)

    def numbers(self, store: Store) -> Floats:
        """Return the permanent random number (n,) of every text."""
        return permanent_numbers(store.documents.hashes(self.contents))

    def threshold(self, store: Store, view_id: int) -> float:
        """Return up to which number texts were drawn for a view, from these alone or from all texts."""
        return store.samples.threshold(view_id, _EVERYTHING, self.name)


def read_sample(
    opened: Opened,
    instruction: str,
    where: Filter | None,
    ids: frozenset[str] | None,
    read: Read,
    progress: OnIndexing | None,
) -> str:
    """Let a language model that serves an instruction read a sample of some documents, in its order.

    The budget is a ceiling over what the question has: texts that were read before, by searches too, count, and those
    that the model refused. A larger one adds to them. Where a limit or an error stops the reading, the sample ends
    before the first text that was not asked about.

    Args:
        opened: the index.
        instruction: the question.
        where: only documents that this filter accepts; None for all.
        ids: the documents; None for all.
        read: texts that may be read in all.
        progress: called with the growing report.

    Returns:
        Why the model cannot be asked, where some of the texts are answered; empty where it was.

    Raises:
        UsageError: the budget is below 1.
        ConsentError: no text is answered, and the model is at a host that nobody allowed.
        EncoderError: no text is answered, and the model cannot be asked.
    """
    if read != "all" and read < 1:
        raise UsageError(f"{read} texts are to be read.", hint="Give a number from 1, or all.")
    shown = opened.sources.active(instruction)
    if not isinstance(shown, Answers) or not shown.by.name:
        return ""
    store, view_id = opened.store, shown.view_id
    population = Population.selected(store, where, ids)
    numbers, most = population.numbers(store), len(population.contents) if read == "all" else read
    report = IndexingReport(views=[view_id], instructions=[shown.instruction])

    def asked() -> Mask:
        return ~np.isin(population.contents, shown.unasked(population.contents))

    before = asked()
    threshold = max(threshold_for(most, numbers, before), population.threshold(store, view_id))
    rows = due(most, threshold, numbers, before)
    try:
        ask(opened, shown, population.contents[rows], counting(report, progress))
    except (ConsentError, EncoderError) as error:
        if not shown.answers(population.contents):
            raise
        return str(error)
    finally:
        reached = asked()[rows]
        if not reached.all():
            first = int(reached.argmin())
            threshold = float(numbers[rows[first - 1]]) if first else 0.0
        if threshold > population.threshold(store, view_id):
            store.samples.extend(view_id, population.name, threshold)
    return ""


def sampled(
    opened: Opened,
    shown: Source,
    population: Population,
    material: Material,
    assignments: Mapping[str, int],
    clusters: Mapping[int, bool],
) -> Sampled:
    """Return what the texts that were read say of all.

    Args:
        opened: the index.
        shown: the view, of answers.
        population: all texts.
        material: the texts that were read.
        assignments: the cluster of each by id, `NONE` for none.
        clusters: by number, whether it has a share: its name holds of its members.
    """
    contents = opened.store.documents.known([row.text for row in material.documents])  # by text
    numbers = {contents[row.text]: assignments[row.id] for row in material.documents}
    places = {number: place for place, number in enumerate([*clusters, NONE])}
    labels = {content: places[number] for content, number in numbers.items()}
    answers = np.array([labels.get(content, UNREAD) for content in population.contents.tolist()], dtype=np.int64)
    threshold = population.threshold(opened.store, shown.view_id)
    order = population.numbers(opened.store)
    sample = Sample.to(threshold, order, answers != UNREAD)
    whole = bool(sample.read.all())
    prediction = None if whole else _predicted(opened, population.contents, answers, len(places))
    judged = None if prediction is None else agreement(prediction, answers, sample)
    used = prediction if judged is not None and judged.better else None
    evenly = set(population.contents[sample.drawn].tolist())
    return Sampled(
        reader=shown.name,
        texts=len(answers),
        read=int(sample.read.sum()),
        drawn=len(evenly),
        agreement=None if judged is None else judged.predicted.value,
        commonest=None if judged is None else judged.commonest.value,
        predicted=used is not None,
        shares={
            number: share(outcome(answers, place, used), sample)
            for number, place in places.items()
            if clusters.get(number, True)
        },
        evenly=frozenset(row.parent_id for row in material.documents if contents[row.text] in evenly),
        missing=int(np.count_nonzero(~sample.read & (order <= threshold))),
    )


def _predicted(opened: Opened, population: Ids, answers: NDArray[np.int64], classes: int) -> Prediction | None:
    """Predict answers from the vectors of the views that have every text, the base view's first."""
    base = opened.sources.view(opened.sources.base)
    views = [] if base is None else [base.view_id]
    views += [source.view_id for source in opened.sources.visible() if source.reads and source.instruction]
    blocks = (opened.store.vectors.get(view_id, population) for view_id in views)
    whole = [block.embeddings for block in blocks if len(block.content_ids) == len(population)]
    return predict(whole, answers, classes)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
