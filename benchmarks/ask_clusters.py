"""V-measure of the clusters of a question against groups that nobody made from its answers, for `ask`.

Groups are the labels of the data that fit a question, and for every question those texts that meet its criterion beside
those that do not. There are as many clusters as groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ask_data import Material
from ask_readers import NAME, in_process
from ask_search import SEED, Bench, interval, read_all

from retriever.evaluation.metrics import v_measure
from retriever.evaluation.scores import mean_score
from retriever.workspace import Index

LABELS = {
    "reviews": (("mood", "polarity"), ("reason", "polarity")),
    "messages": (
        ("mood", "complaint"),
        ("want", "issue_type"),
        ("thing", "issue_project"),
        ("thing", "complaint_industry"),
        ("step", "support_category"),
    ),
}
"""Keys of questions, and the label that is an answer to each; of messages each is of one file."""


def clusters(bench: Bench) -> dict[str, Any]:
    """Cluster the texts under questions by answers, by ``default`` and without a question."""
    material, report = bench.material, {}
    with bench.opened(bench.copied(bench.base())) as index:
        report["no question"] = _judged(index, material, asked=False)
    with bench.opened(bench.copied(bench.whole())) as index:
        report["default"] = _judged(index, material)
    with in_process(material.answers()), bench.opened(bench.copied(bench.base())) as index:
        read_all(index, [one.question for one in material.questions], NAME)
        report["answers"] = _judged(index, material)
    return report


def _judged(index: Index, material: Material, *, asked: bool = True) -> dict[str, Any]:
    """Return the V-measures of an index's clusters."""
    questions = {one.key: one.question for one in material.questions}
    labelled = {}
    for key, label in LABELS[material.name]:
        groups = {one.id: one.labels[label] for one in material.texts if label in one.labels}
        labelled[f"{key} by {label}"] = {
            "texts": len(groups),
            "groups": len(set(groups.values())),
            "v_measure": round(_v_measure(index, questions[key] if asked else None, groups), 3),
        }
    met = []
    for key, question in questions.items():
        groups = {one.id: str(key in one.meets) for one in material.texts}
        met.append(_v_measure(index, question if asked else None, groups))
    return {
        "labels": labelled,
        "criteria": interval(mean_score("ask", "V-measure", np.array(met), seed=SEED)),
        "criteria_by_question": [round(one, 3) for one in met],
    }


def _v_measure(index: Index, question: str | None, groups: Mapping[str, str]) -> float:
    names: Sequence[str] = sorted(set(groups.values()))
    assignments = index.cluster(question, k=len(names), ids=groups.keys()).assignments
    numbers = {name: number for number, name in enumerate(names)}
    ids = [id for id in groups if id in assignments]
    truth = np.array([numbers[groups[id]] for id in ids], dtype=np.int64)
    return v_measure(truth, np.array([assignments[id] for id in ids], dtype=np.int64))
