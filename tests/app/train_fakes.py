"""Rows that can be learned from, and what a finished training leaves behind."""

import json

from waiting import until

from retriever.encoders.sources import CONFIG, MANIFEST
from retriever_app.training.job import Message

HOSTILE = "[link](javascript:alert(1)) <b>bold</b> $x$"
QUESTION = "What kind of product is it?"


def rows(count=24):
    products = ("kettle", "lamp", "toy")
    return [
        {"text": f"Review {place} of the {products[place % 3]}.", "question": QUESTION, "answer": products[place % 3]}
        for place in range(count)
    ]


def score(task, metric, before, after, low, high):
    around = {"low": 40.0, "high": 90.0}
    return {
        "task": task,
        "metric": metric,
        "items": 9,
        "before": {"value": before, **around},
        "after": {"value": after, **around},
        "difference": {"value": after - before, "low": low, "high": high},
        "note": "",
    }


def report():
    found = [{"text": "The kettle broke.", "answer": "kettle", "right": True}]
    missed = [{"text": HOSTILE, "answer": "lamp", "right": False}]
    return {
        "status": "finished",
        "data": {"train": 18, "held_out": 6, "skipped": 1},
        "steps": {"done": 8, "all": 8, "seconds": 125.0},
        "scores": [
            score("held-out triplets", "successes", 60.0, 80.0, 5.0, 35.0),
            score("general", "mean", 70.0, 69.5, -1.5, 0.5),
            score("general", "nDCG@10", 75.0, 74.5, -1.5, 0.5),
            score("general", "Spearman", 65.0, 64.5, -1.5, 0.5),
        ],
        "examples": [{"query": HOSTILE, "instruction": QUESTION, "answer": "kettle", "before": missed, "after": found}],
        "verdict": {"passed": True, "sentence": "It got better on the held-out rows."},
    }


def finish(training):
    training.post(Message("measuring the model after training"))
    training.model.mkdir()
    for name, text in {
        "finetune.json": json.dumps(report()),
        "README.md": "# A card",
        CONFIG: "{}",
        MANIFEST: "{}",
    }.items():
        (training.model / name).write_text(text)
    return training


def ended(trainings, training):
    until(lambda: trainings.holder() is None)
    return trainings.status(training)
