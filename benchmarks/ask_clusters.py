"""V-measure of the clusters of a question against groups that nobody made from its answers, for `ask`.

Groups are the labels of the data that fit a question, those that an annotator made of a part of the texts, and for
every question the texts that meet its criterion beside those that do not. There are as many clusters as groups. Closed
answers, among categories that a reader wrote, stand beside the clusters where an annotator made groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ask_data import Material, load_replies
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
        report["no question"] = _judged(index, material, instructed=False)
    with bench.opened(bench.copied(bench.whole())) as index:
        report["default"] = _judged(index, material)
    with in_process(material.answers()), bench.opened(bench.copied(bench.base())) as index:
        read_all(index, [question.question for question in material.questions], NAME)
        report["answers"] = _judged(index, material)
    with in_process(material.answers(), replies=load_replies()), bench.opened(bench.copied(bench.base())) as index:
        read_all(index, [question.question for question in material.questions], NAME)
        report["written categories"] = {"by_hand": _written(index, material)}
    report["closed answers"] = {"by_hand": _closed(material)}
    return report


def _written(index: Index, material: Material) -> dict[str, Any]:
    """Return the V-measures of the groups that a language model writes of its answers, in whatever number."""
    report = {}
    for question in material.questions:
        groups = {text.id: text.by_hand[question.key] for text in material.texts if question.key in text.by_hand}
        if groups:
            found = index.cluster(question.question, ids=groups.keys(), read="all")
            value = _v_measure_of(found.assignments, groups)
            report[question.key] = {
                "texts": len(groups), "groups": len(found.clusters), "made": found.made, "v_measure": round(value, 3)
            }  # fmt: skip
    return report


def _closed(material: Material) -> dict[str, Any]:
    """Return the V-measures of answers among the categories that a reader wrote."""
    report = {}
    for key in _annotated(material):
        pairs = [(text.by_hand[key], text.closed[key]) for text in material.texts if key in text.by_hand]
        truth, given = (np.unique(column, return_inverse=True)[1] for column in zip(*pairs, strict=True))
        report[key] = {"texts": len(pairs), "groups": len(set(given)), "v_measure": round(v_measure(truth, given), 3)}
    return report


def _annotated(material: Material) -> list[str]:
    return [
        question.key for question in material.questions if any(question.key in text.by_hand for text in material.texts)
    ]


def _judged(index: Index, material: Material, *, instructed: bool = True) -> dict[str, Any]:
    """Return the V-measures of an index's clusters."""
    questions = {question.key: question.question for question in material.questions}

    def measured(key: str, groups: Mapping[str, str]) -> dict[str, Any]:
        value = _v_measure(index, questions[key] if instructed else None, groups)
        return {"texts": len(groups), "groups": len(set(groups.values())), "v_measure": round(value, 3)}

    labelled = {
        f"{key} by {label}": measured(
            key, {text.id: text.labels[label] for text in material.texts if label in text.labels}
        )
        for key, label in LABELS[material.name]
    }
    by_hand = {
        key: measured(key, {text.id: text.by_hand[key] for text in material.texts if key in text.by_hand})
        for key in _annotated(material)
    }
    met = []
    for key, question in questions.items():
        groups = {text.id: str(key in text.meets) for text in material.texts}
        met.append(_v_measure(index, question if instructed else None, groups))
    return {
        "labels": labelled,
        "by_hand": by_hand,
        "criteria": interval(mean_score("ask", "V-measure", np.array(met), seed=SEED)),
        "criteria_by_question": [round(value, 3) for value in met],
    }


def _v_measure(index: Index, question: str | None, groups: Mapping[str, str]) -> float:
    return _v_measure_of(index.cluster(question, k=len(set(groups.values())), ids=groups.keys()).assignments, groups)


def _v_measure_of(assignments: Mapping[str, int], groups: Mapping[str, str]) -> float:
    names: Sequence[str] = sorted(set(groups.values()))
    numbers = {name: number for number, name in enumerate(names)}
    ids = [id for id in groups if id in assignments]
    truth = np.array([numbers[groups[id]] for id in ids], dtype=np.int64)
    return v_measure(truth, np.array([assignments[id] for id in ids], dtype=np.int64))
