"""Encoders that answer a question or hear it not, and texts that say what broke."""

from dataclasses import replace

import numpy as np

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.index.verdicts.reading import REFERENCES

ASKED = "What broke?"
MOOD_ASKED = "How do they feel?"
PRODUCTS = ("kettle", "lamp", "toy", "drone")
FAULTS = ("handle", "screen", "plug", "wheel", "lid")
MOODS = ("love", "hate", "calm")
TEXTS = [
    f"{mood} my {product} {number}, the {fault} came off"
    for number, (product, fault, mood) in enumerate(
        (product, fault, mood) for product in PRODUCTS for fault in FAULTS for mood in MOODS
    )
]  # 60 texts, all combinations


class Reader(Encoder):
    """Answers with the words of a text that belong to what it takes the question for, as coordinates and in words."""

    spec = EncoderSpec("r" * 64, 16, name="reader")

    def __init__(self, name="reader"):
        self.spec = replace(self.spec, fingerprint=name.ljust(64, "0"), name=name)
        self.asked = []

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.asked += list(instructions)
        found = []
        for instruction in instructions:
            known = self.answers_to(instruction)
            said = [[word for word in known if word in text] for text in texts]
            rows = [[float(word in one) for word in known] for one in said]
            rows = np.pad(np.array(rows, dtype=float), ((0, 0), (0, self.dim - len(known))))
            noise = [np.random.default_rng([len(instruction), *text.encode()]).normal(size=self.dim) for text in texts]
            found.append(Encoded(normalise(rows + 0.01 * np.array(noise)), [one[:words] for one in said]))
        for text in texts if on_tokens else ():
            on_tokens(1 + len(text) // 4)
        return found

    def answers_to(self, instruction):
        """Faults where they are asked for, moods where feelings are, else products."""
        if ASKED in instruction:
            return FAULTS
        return MOODS if instruction == REFERENCES[1] else PRODUCTS


class Deaf(Reader):
    """Answers every question with products, as the shipped model once did when asked for reasons."""

    def answers_to(self, instruction):
        return PRODUCTS


class Plain(Encoder):
    """Counts letters: equal words are equal, and nothing more is known of what they mean."""

    spec = EncoderSpec("p" * 64, 26, name="plain")

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        rows = [[text.lower().count(chr(ord("a") + place)) for place in range(26)] for text in texts]
        return [Encoded(normalise(rows), [[] for _ in texts]) for _ in instructions]
