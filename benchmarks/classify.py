"""How well are texts put to categories by the names of these alone?

    python benchmarks/classify.py DATA --vectors FOLDER --output benchmarks/results/classify.json
    python benchmarks/classify.py DATA --vectors FOLDER --rows choice

Texts with known labels: product reviews by category (DMASTE), sentences on restaurants by the aspects they speak of
(MAMS, several a sentence), customers' questions by intent (BANKING77, ten intents drawn by chance). The names of the
categories are the labels', with blanks for underscores. Compared are

    retriever         `retriever classify`, under a question about the labels
    MiniLM            the nearest name by all-MiniLM-L6-v2, which reads text and name as they are
    nearest cluster   k-means over the view into as many clusters as there are names; a cluster goes to the name that is
                      nearest to its centroid
    answered words    the name nearest by MiniLM to the words that the model answers of a text
    cosine            the name of the highest cosine under the question, nothing taken off
    view alone        the score of `retriever classify` without MiniLM's part in it
    half MiniLM       half the score of the view alone, half the cosine by MiniLM

by accuracy and macro F1; of texts with several labels the choice counts as right where it is one of them, and F1 of the
sets is told besides (`several`). The floor below which a text belongs to none is judged by leaving out each name in
turn: texts with that label alone should go to none, texts without it should not.

The rules and numbers in retriever/clusters/classifying.py were chosen on the rows of ``--rows choice``: development
rows of the first two files, ten other intents, and restaurant sentences of ACOS; the figures are of test rows. The
model was trained on other rows of these files (its card has them). Vectors are kept in FOLDER, so that another analysis
takes seconds.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from retriever import load_encoder
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.categories import Category
from retriever.clusters.classifying import FLOOR, GAP, PLAIN, TAKEN_OFF, Fit, Plain, chosen, fitted, read_of
from retriever.core.protocols import Encoder
from retriever.core.similarity import normalise
from retriever.evaluation.files import INTENTS, MAMS, RESTAURANTS, REVIEWS
from retriever.evaluation.rows import LabelledRow, read_rows, sample

TEXTS, INTENT_COUNT, WORDS = 300, 10, 5
PRODUCT, WISH = "What kind of product is this review about?", "What does the customer want?"
ASPECTS = "Which aspects of the restaurant is the sentence about?"


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts, the labels of each, and the question that the labels answer."""

    name: str
    instruction: str
    texts: Sequence[str]
    labels: Sequence[Sequence[str]]

    @property
    def names(self) -> list[str]:
        """The different labels, ascending."""
        return sorted({one for labels in self.labels for one in labels})

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Which text has which label, (n, k)."""
        return np.array([[name in labels for name in self.names] for labels in self.labels])


@dataclass(frozen=True, slots=True)
class Vectors:
    """What is read of a set.

    Attributes:
        texts: (n, dim) under the question.
        names: (k, dim) what is read of the categories, likewise.
        plain_texts: (n, d) by MiniLM.
        plain_names: (k, d).
        plain_words: (n, d) of the words answered.
    """

    texts: NDArray[np.float32]
    names: NDArray[np.float32]
    plain_texts: NDArray[np.float32]
    plain_names: NDArray[np.float32]
    plain_words: NDArray[np.float32]


def main() -> None:
    """Parse the options, read what is not kept yet, measure every set, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--rows", choices=("test", "choice"), default="test")
    parser.add_argument("--encoder", default="default")
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.vectors.mkdir(parents=True, exist_ok=True)
    encoder, plain = load_encoder(options.encoder), load_encoder("minilm")
    found = {}
    for one in sets(options.data, options.texts, options.rows):
        found[one.name] = measured(one, kept(options.vectors, one, options.rows, encoder, plain))
    settings = {"taken_off": TAKEN_OFF, "plain": PLAIN, "floor": FLOOR, "gap": GAP}
    readers = {"fingerprint": encoder.fingerprint, "plain": plain.fingerprint}
    write("classify", options, {**readers, "settings": settings, "sets": found})


def sets(data: Path, count: int, rows: str) -> list[Labelled]:
    """Return the sets of test rows, or of those that the rules were chosen on."""
    test = rows == "test"
    reviews = [one for one in read_rows(data, REVIEWS) if one.split == ("test" if test else "dev")]
    sentences = [one for one in read_rows(data, MAMS) if one.split == ("test" if test else "val")]
    asked = [one for one in read_rows(data, INTENTS) if one.split == "test"]
    intents = sorted({one.get("labels.intent", str) for one in asked})
    order = np.random.default_rng(0).permutation(len(intents))
    drawn = {intents[row] for row in (order[:INTENT_COUNT] if test else order[INTENT_COUNT : 2 * INTENT_COUNT])}
    asked = [one for one in asked if one.get("labels.intent", str) in drawn]
    found = [
        _of_one("DMASTE categories", PRODUCT, sample(reviews, count, seed=0), "category"),
        _of_aspects("MAMS aspects", sample(sentences, count, seed=0)),
        _of_one("BANKING77 intents", WISH, sample(asked, count, seed=0), "intent"),
    ]
    if not test:
        spoken = [one for one in read_rows(data, RESTAURANTS) if one.get("aspects", list)]
        found.append(_of_aspects("ACOS aspects", sample(spoken, count, seed=0)))
    return found


def _of_one(name: str, instruction: str, rows: Sequence[LabelledRow], label: str) -> Labelled:
    labels = [[one.get(f"labels.{label}", str).replace("_", " ").rstrip("?").lower()] for one in rows]
    return Labelled(name, instruction, [one.get("text", str) for one in rows], labels)


def _of_aspects(name: str, rows: Sequence[LabelledRow]) -> Labelled:
    kinds = [sorted({one["aspect"].partition("#")[0].lower() for one in row.get("aspects", list)}) for row in rows]
    return Labelled(name, ASPECTS, [one.get("text", str) for one in rows], kinds)


def kept(folder: Path, given: Labelled, rows: str, encoder: Encoder, plain: Encoder) -> Vectors:
    """Return the vectors of a set, read now or kept before."""
    name = f"{given.name.replace(' ', '-')}-{rows}-{len(given.texts)}-{encoder.fingerprint[:12]}.npz"
    path = folder / name
    if not path.exists():
        said = [read_of(Category(one)) for one in given.names]
        ((read,), (named,)) = (
            encoder.encode_views(texts, [given.instruction], words=WORDS) for texts in (given.texts, said)
        )
        np.savez_compressed(
            path,
            texts=read.embeddings,
            names=named.embeddings,
            plain_texts=plain.encode(given.texts),
            plain_names=plain.encode(given.names),
            plain_words=plain.encode([" ".join(one) or "nothing" for one in read.words]),
            read=json.dumps(list(given.texts)),
        )
    with np.load(path, allow_pickle=False) as stored:
        if json.loads(str(stored["read"])) != list(given.texts):
            raise SystemExit(f"{path} holds other texts; remove it.")
        return Vectors(*(stored[key] for key in ("texts", "names", "plain_texts", "plain_names", "plain_words")))


def measured(given: Labelled, vectors: Vectors) -> dict[str, Any]:
    """Return the figures of a set."""
    truth, fit = given.truth, fit_of(vectors)
    plain, alone = vectors.plain_texts @ vectors.plain_names.T, fit_of(vectors, plainly=False).scores
    found: dict[str, Any] = {
        "instruction": given.instruction,
        "texts": len(truth),
        "categories": given.names,
        "labels a text": round(float(truth.sum(axis=1).mean()), 2),
        "retriever": judged(fit.scores.argmax(axis=1), truth),
        "MiniLM": judged(plain.argmax(axis=1), truth),
        "nearest cluster": judged(nearest_cluster(vectors, truth.shape[1]), truth),
        "answered words": judged((vectors.plain_words @ vectors.plain_names.T).argmax(axis=1), truth),
        "cosine": judged((vectors.texts @ vectors.names.T).argmax(axis=1), truth),
        "view alone": judged(alone.argmax(axis=1), truth),
        "half MiniLM": judged((alone + plain).argmax(axis=1), truth),
        "none": none_judged(truth, vectors),
    }
    if truth.sum(axis=1).max() > 1:
        found["several"] = f1_of_sets(chosen(fit, several=True), truth)
        found["one"] = f1_of_sets(chosen(fit, several=False), truth)
    return found


def fit_of(vectors: Vectors, left_out: int | None = None, *, plainly: bool = True) -> Fit:
    """Return how well texts fit the names, one of these left out where that is asked for, or MiniLM's part."""
    rows = [row for row in range(len(vectors.names)) if row != left_out]
    plain = Plain(vectors.plain_texts, vectors.plain_names[rows]) if plainly else None
    return fitted(vectors.texts, normalise(vectors.names[rows]), vectors.texts.mean(axis=0), plain)


def judged(labels: NDArray[np.int64], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return accuracy and macro F1 in percent; of several labels the one that was chosen counts, else the first."""
    right = truth[np.arange(len(labels)), labels]
    wanted = np.where(right, labels, truth.argmax(axis=1))
    macro = f1_score(wanted, labels, labels=range(truth.shape[1]), average="macro", zero_division=0)
    return {"accuracy": percent(right.mean()), "macro F1": percent(macro)}


def f1_of_sets(places: Sequence[Sequence[int]], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return micro and macro F1 in percent of sets of categories."""
    found = np.array([[number in one for number in range(truth.shape[1])] for one in places])
    return {f"{kind} F1": percent(f1_score(truth, found, average=kind, zero_division=0)) for kind in ("micro", "macro")}


def nearest_cluster(vectors: Vectors, k: int) -> NDArray[np.int64]:
    """Return the name of every text's cluster: the one that fits its centroid best."""
    found = spherical_kmeans(vectors.texts, k)
    fit = fitted(found.centroids, normalise(vectors.names), vectors.texts.mean(axis=0))
    return fit.scores.argmax(axis=1)[found.labels]


def none_judged(truth: NDArray[np.bool_], vectors: Vectors) -> dict[str, float | None]:
    """Return, each name left out in turn, the shares in percent that go to none: of its texts, and of others."""
    gone, stayed = [], []
    for number in range(truth.shape[1]):
        none = np.array([one == (-1,) for one in chosen(fit_of(vectors, number), several=False)])
        gone += none[truth[:, number] & (truth.sum(axis=1) == 1)].tolist()
        stayed += none[~truth[:, number]].tolist()
    return {
        "category missing": percent(np.mean(gone)) if gone else None,
        "category there": percent(np.mean(stayed)),
    }


def percent(share: float) -> float:
    """Return a share in percent, one decimal."""
    return round(100 * float(share), 1)


if __name__ == "__main__":
    main()
