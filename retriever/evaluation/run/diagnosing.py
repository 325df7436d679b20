"""Whether an encoder obeys an instruction on a user's own texts: how its view moves, its answers, what pairs say."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from retriever.core.errors import InputError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.text import drop_prefixes
from retriever.core.types import JSON, BadRow
from retriever.corpus.readers import read_documents
from retriever.evaluation.rows import read_rows, sample
from retriever.evaluation.run.view_measures import Shape, Shift, mean_shift, shape, shift
from retriever.index.encoding import describe
from retriever.workspace import Index

DIAGNOSED_TEXTS = 200
LEAST_TEXTS = 8

PARAPHRASES = (
    "Tell me: {instruction}",
    "Look at the text and answer: {instruction}",
    "Please answer this about the text. {instruction}",
)
NEGATED = "Leave this out and look at everything else: {instruction}"
UNRELATED = (
    "In which language is the text written?",
    "Which numbers does the text mention?",
    "Which season of the year is it?",
    "What is the first letter of the text?",
)

STILL = 1e-3
"""Below this `regrouped`, unrelated instructions change nothing: the encoder does not read the instruction."""

OBEYED_SELECTIVITY = 20.0
WEAK_SELECTIVITY = 5.0
OBEYED_AUC = 0.75
WEAK_AUC = 0.65
LOST_AUC = 0.05
"""Thresholds of the verdict, set on 24 diagnoses of 40 labelled reviews with 120 pairs each: four encoders under three
questions for category and three for polarity (`benchmarks/diagnose_thresholds.py`). Encoders that were not trained to
listen have selectivities of 0.7 to 3.6 and tell pairs apart no better than without the instruction; the shipped default
has 41 to 140 and AUCs of 0.68 to 0.91. Verdicts by selectivity and by pairs agree in 22 of the 24, from which they were
set; on other data they are not tested.

OBEYED_SELECTIVITY, WEAK_SELECTIVITY: how many times as far unrelated instructions move the view as paraphrases do.
OBEYED_AUC, WEAK_AUC: the chance that a pair which is the same under the instruction has a higher cosine than one which
is not; 0.5 is guessing.
LOST_AUC: an instruction under which this chance is lower than without it by more than that is not obeyed.
"""

_MOST_WORDS = 20

Obedience = Literal["obeyed", "weakly", "ignored"]


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts, and whether they are the same under the instruction."""

    a: str
    b: str
    same: bool


@dataclass(frozen=True, slots=True)
class PairAccuracy:
    """Figures of how well cosines tell pairs that are the same from pairs that are not.

    Attributes:
        same: how many of them are the same.
        auc: area under the ROC curve.
        accuracy: balanced accuracy at the best threshold.
        threshold: that cosine.
        base_auc: the area in the base view.
    """

    pairs: int
    same: int
    auc: float
    accuracy: float
    threshold: float
    base_auc: float

    @property
    def lost(self) -> bool:
        """Whether pairs are told apart better without the instruction."""
        return self.base_auc - self.auc > LOST_AUC


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of a diagnosis.

    Attributes:
        encoder: its name, fingerprint and settings.
        base: shift against no instruction.
        paraphrase: mean shift against paraphrases; small where the instruction's meaning counts.
        unrelated: mean shift against unrelated instructions; large where it is read.
        negated: shift against the instruction turned around.
        selectivity: ``regrouped`` of unrelated instructions by that of paraphrases; 1 where nothing moves.
        words: what the model answers most often, with the number of texts.
        view: shape under the instruction.
        base_view: shape under the default instruction.
    """

    instruction: str
    encoder: Mapping[str, JSON]
    texts: int
    base: Shift
    paraphrase: Shift
    unrelated: Shift
    negated: Shift
    selectivity: float
    words: Sequence[tuple[str, int]]
    view: Shape
    base_view: Shape
    pairs: PairAccuracy | None = None

    @property
    def level(self) -> Obedience:
        """The verdict: by the pairs where there are any, else by the selectivity."""
        if self.unrelated.regrouped < STILL:
            return "ignored"
        if self.pairs is not None:
            return "ignored" if self.pairs.lost else _level(self.pairs.auc, OBEYED_AUC, WEAK_AUC)
        return _level(self.selectivity, OBEYED_SELECTIVITY, WEAK_SELECTIVITY)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence, with the threshold it rests on."""
        word = {"obeyed": "is obeyed", "weakly": "is obeyed weakly", "ignored": "is ignored"}[self.level]
        if self.unrelated.regrouped < STILL:
            return f"The instruction {word}: the vectors are the same whatever is asked."
        if self.pairs is not None:
            same = f"a pair that is the same is closer than one that is not in {self.pairs.auc:.0%} of cases"
            if self.pairs.lost:
                return f"The instruction {word}: {same}, and without the instruction in {self.pairs.base_auc:.0%}."
            return f"The instruction {word}: {same} (obeyed from {OBEYED_AUC:.0%}, weakly from {WEAK_AUC:.0%})."
        return (
            f"The instruction {word}: unrelated instructions move the view {self.selectivity:.1f} times as far as "
            f"paraphrases do (obeyed from {OBEYED_SELECTIVITY:.1f}, weakly from {WEAK_SELECTIVITY:.1f})."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object, rounded to four decimals."""
        found = _rounded(asdict(self))
        words = [{"word": word, "texts": count} for word, count in self.words]
        thresholds = {
            "still": STILL,
            "obeyed_selectivity": OBEYED_SELECTIVITY,
            "weak_selectivity": WEAK_SELECTIVITY,
            "obeyed_auc": OBEYED_AUC,
            "weak_auc": WEAK_AUC,
            "lost_auc": LOST_AUC,
        }
        judged = {"level": self.level, "verdict": self.verdict, "thresholds": thresholds}
        return {"schema_version": SCHEMA_VERSION, **judged, **found, "words": words}


def diagnose(encoder: Encoder, texts: Sequence[str], instruction: str, pairs: Sequence[TextPair] = ()) -> Diagnosis:
    """Measure an instruction's effect on the vectors of some texts, and count the model's answers to it.

    The texts are a sample of the corpus, of which equal ones count once; the pairs are the same, or not, under the
    instruction.

    Raises:
        UsageError: the instruction is empty, or there are too few texts to compare.
    """
    asked = instruction.strip()
    if not asked:
        raise UsageError("The instruction is empty.", hint="Say what to look at with --instruction.")
    distinct = list(dict.fromkeys(texts))
    if len(distinct) < LEAST_TEXTS:
        raise UsageError(
            f"There are {len(distinct)} different texts to look at.", hint=f"A diagnosis needs at least {LEAST_TEXTS}."
        )
    paraphrases = [one.format(instruction=asked) for one in PARAPHRASES]
    views = ["", NEGATED.format(instruction=asked), *paraphrases, *UNRELATED]
    encoded = encoder.encode_with_words(distinct, instruction=asked)
    view = encoded.embeddings
    base, negated, *rest = encoder.encode_many(distinct, views)
    paraphrase = mean_shift(view, rest[: len(paraphrases)])
    unrelated = mean_shift(view, rest[len(paraphrases) :])
    return Diagnosis(
        instruction=asked,
        encoder=describe(encoder),
        texts=len(distinct),
        base=shift(view, base),
        paraphrase=paraphrase,
        unrelated=unrelated,
        negated=shift(view, negated),
        selectivity=selectivity(paraphrase, unrelated),
        words=_most_answered(encoded.words),
        view=shape(view),
        base_view=shape(base),
        pairs=pair_accuracy(encoder, pairs, asked) if pairs else None,
    )


def _most_answered(answers: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Return the words most texts were answered with, and of how many texts."""
    counts = Counter(word for words in answers for word in dict.fromkeys(words))
    return [(word, counts[word]) for word in drop_prefixes((word for word, _ in counts.most_common()), _MOST_WORDS)]


def selectivity(paraphrase: Shift, unrelated: Shift) -> float:
    """Compute how many times as far unrelated instructions regroup a view as paraphrases do; 1 where neither does."""
    return (unrelated.regrouped + STILL) / (paraphrase.regrouped + STILL)


def pair_accuracy(encoder: Encoder, pairs: Sequence[TextPair], instruction: str) -> PairAccuracy:
    """Measure how well cosines under an instruction tell pairs that are the same from others.

    Raises:
        UsageError: the pairs are all the same, or none is.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    same = np.array([pair.same for pair in pairs])
    if same.all() or not same.any():
        raise UsageError(
            "The pairs are all of one kind.", hint="Give pairs that are the same under the instruction and others."
        )
    texts = [text for pair in pairs for text in (pair.a, pair.b)]
    view, base = (rows.reshape(len(pairs), 2, -1) for rows in encoder.encode_many(texts, [instruction, ""]))
    cosines = (view[:, 0] * view[:, 1]).sum(axis=1)
    wrong, right, thresholds = roc_curve(same, cosines, drop_intermediate=False)
    best = int(np.argmax(right - wrong))
    return PairAccuracy(
        pairs=len(pairs),
        same=int(same.sum()),
        auc=float(roc_auc_score(same, cosines)),
        accuracy=float((1 + right[best] - wrong[best]) / 2),
        threshold=float(min(thresholds[best], 1.0)),
        base_auc=float(roc_auc_score(same, (base[:, 0] * base[:, 1]).sum(axis=1))),
    )


def index_texts(index: Index, limit: int, *, seed: int = 0) -> list[str]:
    """Return the texts of a sample of an index's documents, the same ones for a seed."""
    ids = sample(list(index.store.documents.ids()), limit, seed=seed)
    return [document.text for document in index.store.documents.get(ids).values()]


def corpus_texts(corpus: Path, limit: int, *, seed: int = 0, encoding: str | None = None) -> list[str]:
    """Return the texts of a sample of a corpus file's documents, the same ones for a seed.

    Raises:
        InputError: the file cannot be read, or a row is bad.
    """
    texts = []
    for row in read_documents([str(corpus)], encoding=encoding):
        if isinstance(row, BadRow):
            raise InputError(f"{row.file}, row {row.line}: {row.reason}", hint="Mend or remove the row.")
        texts.append(row.text)
    return sample(texts, limit, seed=seed)


def read_pairs(file: Path) -> list[TextPair]:
    """Return the pairs of a JSONL file, rows of ``a``, ``b`` and ``same``.

    Raises:
        InputError: the file is missing or empty, or a row lacks a key; file and row are named.
    """
    rows = read_rows(file.parent, file.name)
    return [TextPair(row.get("a", str), row.get("b", str), row.get("same", bool)) for row in rows]


def _level(value: float, obeyed: float, weakly: float) -> Obedience:
    return "obeyed" if value >= obeyed else "weakly" if value >= weakly else "ignored"


def _rounded(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value
