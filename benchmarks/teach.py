"""What a few examples teach of a question, beside logistic regression on MiniLM, SetFit's recipe and `finetune`.

    python benchmarks/teach.py DATA DATA2 --output benchmarks/results/teach.json
    python benchmarks/teach.py DATA DATA2 --tune --setfit --finetune --kinds complaint issue_type --draws 1

Kinds of label over reviews, sentences and messages are asked of texts (`teach_kinds`, which reads them once and keeps
the vectors). Of each answer some texts are drawn as examples; the others are judged: by balanced accuracy of the answer
given, by triplets (a text, one with its answer, one with another: the first two should be nearer) and by the V-measure
of as many clusters as there are answers. A kind counts as followed where asking it gains at least `FOLLOWED` points of
triplets over not asking. *before* is the untaught view, where a text gets the answer whose examples' mean is nearest.
SetFit's recipe (Tunstall et al., 2209.11055) fine-tunes MiniLM on pairs of examples of one answer and of two, and puts
a logistic regression on it. `--finetune` trains the question reader on the examples as texts, question and answers.
`--tune` fine-tunes the plain reader on the examples before the head is learned, as `retriever teach --tune` does.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray
from teach_kinds import Kind, Read, kinds, read

from retriever import load_encoder
from retriever.core.encoder import Encoder
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.evaluation.clustering import cluster_v_measures
from retriever.index.readers import load_plain
from retriever.index.teaching.learning import Lesson, Settings, learn, triples_right
from retriever.index.teaching.tuning import try_tuning

EXAMPLES = (3, 10, 50)
LEAST_LEFT = 10
"""Texts of an answer that have to be left to be judged by."""
FOLLOWED = 5.0
MEASURES = ("accuracy", "triplets", "v_measure")
_ROUNDED = 2


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Examples and the texts that are judged, as rows of a kind."""

    kind: Kind
    read: Read
    examples: Ids
    judged: Ids
    seed: int

    @property
    def labels(self) -> Ids:
        """Answers of the texts that are judged."""
        return self.read.labels[self.judged]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a method gives for the texts that are judged: an answer each, and a vector each."""

    answers: Ids
    vectors: Embeddings


Method = Callable[[Draw], Given | None]
"""Gives None where a draw has too few examples for it."""


def main() -> None:
    """Parse the options, measure every kind, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("data2", type=Path)
    parser.add_argument("--kinds", nargs="*", help="Only these.")
    parser.add_argument("--examples", nargs="*", type=int, default=list(EXAMPLES))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--setfit", action="store_true")
    parser.add_argument("--finetune", action="store_true")
    parser.add_argument("--encoder", default="pretrained:default")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    question, plain = load_encoder(options.encoder), load_plain()
    methods: dict[str, Method] = {"before": untaught, "taught": taught, "logistic on MiniLM": logistic}
    if options.tune:
        methods["tuned"] = partial(tuned, plain)
    if options.setfit or options.finetune:
        from teach_training import finetuned, setfit

        methods |= {"SetFit's recipe": setfit} if options.setfit else {}
        methods |= {"finetune": finetuned} if options.finetune else {}
    found = []
    for kind in kinds(options.data, options.data2):
        if options.kinds and kind.name not in options.kinds:
            continue
        found.append(measured(kind, read(kind, question, plain), methods, options.examples, options.draws))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    report = {"fingerprint": question.fingerprint, "plain": plain.fingerprint, "means": means(found), "kinds": found}
    write("teach", options, report)


def measured(
    kind: Kind, vectors: Read, methods: Mapping[str, Method], examples: Sequence[int], draws: int
) -> dict[str, Any]:
    """Return the scores of a kind, in percent: asked and not asked, and by number of examples and method."""
    asked, unasked = (PERCENT * triplets(one, vectors.labels) for one in (vectors.asked, vectors.unasked))
    by_number: dict[str, Any] = {}
    for number in examples:
        scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for draw in drawn(kind, vectors, number, draws):
            for name, method in methods.items():
                started = time.perf_counter()
                given = method(draw)
                if given is None:
                    continue
                scores[name]["seconds"].append(time.perf_counter() - started)
                for measure, value in judged(given, draw).items():
                    scores[name][measure].append(value)
        by_number[str(number)] = {
            name: {measure: round(float(np.mean(values)), _ROUNDED) for measure, values in each.items()}
            for name, each in scores.items()
        }
    return {
        "kind": kind.name,
        "question": kind.question,
        "texts": len(kind.texts),
        "answers": len(kind.answers),
        "asked": round(asked, _ROUNDED),
        "unasked": round(unasked, _ROUNDED),
        "followed": asked - unasked >= FOLLOWED,
        "examples": by_number,
    }


PERCENT = 100.0


def drawn(kind: Kind, vectors: Read, number: int, draws: int) -> Iterator[Draw]:
    """Yield the draws of so many examples an answer; none where an answer would leave too few texts to judge by."""
    counts = np.bincount(vectors.labels)
    if counts.min() < number + LEAST_LEFT:
        return
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        chosen = [generator.permutation(np.flatnonzero(vectors.labels == one))[:number] for one in range(len(counts))]
        examples = np.sort(np.concatenate(chosen))
        yield Draw(kind, vectors, examples, np.setdiff1d(np.arange(len(vectors.labels)), examples), seed)


def untaught(draw: Draw) -> Given:
    """Answer by the nearest mean of the examples, in the view as it is."""
    found, labels = draw.read.asked, draw.read.labels[draw.examples]
    means_of = [found[draw.examples][labels == one].mean(axis=0) for one in range(len(draw.kind.answers))]
    vectors = found[draw.judged]
    return Given((vectors @ normalise(np.stack(means_of)).T).argmax(axis=1), vectors)


def taught(draw: Draw, settings: Settings | None = None) -> Given:
    """Answer by a head, as `retriever teach` makes it."""
    head = learn(lesson_of(draw), settings)
    vectors, plain = draw.read.asked[draw.judged], draw.read.plain[draw.judged]
    return Given(head.probabilities(vectors, plain).argmax(axis=1), head.map(vectors, plain))


def lesson_of(draw: Draw) -> Lesson:
    """Return the examples of a draw as a head learns from them."""
    found = draw.read
    return Lesson(
        answers=draw.kind.answers,
        labels=found.labels[draw.examples],
        vectors=found.asked[draw.examples],
        plain=found.plain[draw.examples],
        names=found.names,
        plain_names=found.plain_names,
        mean=found.asked.mean(axis=0),
        plain_mean=found.plain.mean(axis=0),
    )


def tuned(plain: Encoder, draw: Draw) -> Given:
    """Answer by a head beside a plain reader that was fine-tuned on the examples, where that is kept."""
    tried = try_tuning(plain, [draw.kind.texts[row] for row in draw.examples], lesson_of(draw))
    if tried.tuning is None:
        return taught(draw)
    reader = plain.tuned(tried.tuning)
    every, names = reader.encode(list(draw.kind.texts)), reader.encode(draw.kind.answers)
    return taught(replace(draw, read=replace(draw.read, plain=every, plain_names=names)), tried.settings)


def logistic(draw: Draw) -> Given:
    """Answer by logistic regression on the plain reader's vectors; roots of its probabilities are the vectors."""
    return by_logistic(draw.read.plain[draw.examples], draw.read.plain[draw.judged], draw)


def by_logistic(examples: Embeddings, others: Embeddings, draw: Draw) -> Given:
    """Answer by logistic regression on any vectors of the examples and of the texts that are judged."""
    from sklearn.linear_model import LogisticRegressionCV

    labels = draw.read.labels[draw.examples]
    folds = min(5, int(np.bincount(labels).min()))
    fitted = LogisticRegressionCV(
        Cs=[0.1, 1.0, 10.0, 100.0],
        cv=folds,
        max_iter=1000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
        scoring="balanced_accuracy",
    ).fit(examples, labels)
    probable = fitted.predict_proba(others)
    return Given(probable.argmax(axis=1), np.sqrt(probable).astype(np.float32))


def judged(given: Given, draw: Draw) -> dict[str, float]:
    """Return the measures of what a method gives, in percent."""
    labels, right = draw.labels, given.answers == draw.labels
    accuracy = float(np.mean([right[labels == one].mean() for one in np.unique(labels)]))
    clusters = cluster_v_measures(given.vectors, [str(one) for one in labels], [draw.seed]).v_measures(
        np.arange(len(labels))
    )
    values = (accuracy, triplets(given.vectors, labels), float(np.mean(clusters)))
    return {name: PERCENT * value for name, value in zip(MEASURES, values, strict=True)}


def triplets(vectors: NDArray[np.float32], labels: Ids) -> float:
    """Return the share of triplets that come right."""
    return triples_right(vectors @ vectors.T, labels)


def means(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means over the kinds that are followed, and over those that are not: by examples, method and measure."""
    report: dict[str, Any] = {}
    for name, followed in (("followed", True), ("not followed", False)):
        group = [one for one in found if one["followed"] is followed]
        by_number = {}
        for number in dict.fromkeys(number for one in group for number in one["examples"]):
            measured_kinds = [one["examples"][number] for one in group if one["examples"][number]]
            methods = dict.fromkeys(method for one in measured_kinds for method in one)
            by_number[number] = {
                method: {
                    measure: round(
                        float(np.mean([one[method][measure] for one in measured_kinds if method in one])), _ROUNDED
                    )
                    for measure in (*MEASURES, "seconds")
                }
                for method in methods
            }
        report[name] = {"kinds": len(group), "examples": by_number}
    return report


if __name__ == "__main__":
    main()
