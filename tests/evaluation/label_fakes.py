"""Encoders and data for tasks over texts with two labels: each label is one word of the text."""

import hashlib
import json
from itertools import product

import numpy as np

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.evaluation.suites import Bench

DIM = 8
FOOD, SERVICE, AMBIENCE = "soup", "waiter", "music"
GOOD, BAD = "lovely", "awful"


class BlindEncoder(Encoder):
    """Every text has a direction of its own, whatever it is asked."""

    spec = EncoderSpec("blind".ljust(64, "0"), DIM)

    def __init__(self):
        self.calls = []  # (texts, instructions) of every pass

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.calls.append((list(texts), list(instructions)))
        rows = [normalise([self.row(text, one) for text in texts]).reshape(-1, self.dim) for one in instructions]
        return [Encoded(one, [[] for _ in texts]) for one in rows]

    def row(self, text, instruction):
        return np.frombuffer(hashlib.sha256(text.encode()).digest()[:DIM], dtype=np.uint8).astype(float) - 127.5


class Oracle(BlindEncoder):
    """Under an instruction that it knows, a text is the axis of the first keyword it holds; else it is blind.

    Args:
        keywords: the words that each instruction asks to tell apart.
    """

    spec = EncoderSpec("oracle".ljust(64, "0"), DIM)

    def __init__(self, keywords):
        super().__init__()
        self.keywords = keywords

    def row(self, text, instruction):
        if instruction not in self.keywords:
            return super().row(text, instruction)
        held = [word in text.split() for word in self.keywords[instruction]]
        return np.eye(DIM)[held.index(True)]


def no_search(*arguments, **options):
    raise AssertionError("this task does not search")


def bench(folder, encoder, *, search=no_search, limit=None, seed=0):
    return Bench(folder, encoder, search, limit, seed)


def write_rows(folder, file, rows):
    (folder / file).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def sentences(firsts, seconds, per_cell):
    """Yield (text, first, second), every combination ``per_cell`` times."""
    for first, second, number in product(firsts, seconds, range(per_cell)):
        yield f"{first} {second} {number}", first, second


def restaurant_rows(per_cell=8):
    kinds = {FOOD: "FOOD#QUALITY", SERVICE: "SERVICE#GENERAL", AMBIENCE: "AMBIENCE#GENERAL"}
    polarities = {GOOD: "positive", BAD: "negative"}
    return [
        {"id": text, "text": text, "aspects": [{"aspect": kinds[kind], "polarity": polarities[mood]}]}
        for text, kind, mood in sentences(kinds, polarities, per_cell)
    ]


def by_metric(scores):
    found = {}
    for one in scores:
        assert one.metric not in found
        found[one.metric] = one
    return found
