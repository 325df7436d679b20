"""An encoder a person can compute by hand; run as a script, the whole command line over it."""

import hashlib
from dataclasses import replace

import numpy as np

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.types import Encoded
from retriever.encoders import catalog

KEYWORDS = ("kettle", "lamp", "toy", "love", "hate", "broke")
PRODUCTS, MOODS = KEYWORDS[:3], KEYWORDS[3:5]
CORPUS = [
    {"id": "r1", "text": "The kettle broke.", "stars": 1, "category": "kitchen"},
    {"id": "r2", "text": "I love this kettle.", "stars": 5, "category": "kitchen"},
    {"id": "r3", "text": "I hate the lamp.", "stars": 2, "category": "light"},
    {"id": "r4", "text": "A lamp to love.", "stars": 4, "category": "light"},
    {"id": "r5", "text": "The toy broke.", "stars": 1, "category": "toy"},
]


class KeywordEncoder(Encoder):
    """Counts keywords: of products if the instruction says so, of moods if it says so, else all; the last one is 1."""

    spec = EncoderSpec("", len(KEYWORDS) + 1, pooling="keywords")

    def __init__(self, name="keywords"):
        self.spec = replace(self.spec, name=name, fingerprint=hashlib.sha256(name.encode()).hexdigest())

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        said = [[self.answers(text, one)[:words] for text in texts] for one in instructions]
        return [Encoded(self.rows(texts, one), answers) for one, answers in zip(instructions, said, strict=True)]

    def rows(self, texts, instruction):
        rows = [[*(float(word in self.answers(text, instruction)) for word in KEYWORDS), 1.0] for text in texts]
        vectors = np.asarray(rows, np.float32).reshape(-1, self.dim)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def answers(self, text, instruction):
        asked = PRODUCTS if "product" in instruction else MOODS if "mood" in instruction else KEYWORDS
        return [word for word in asked if word in text.lower()]


def load_encoder(name="default", *, device="auto", **options):
    return KeywordEncoder("keywords" if name == "default" else name)


if __name__ == "__main__":
    from retriever.cli.main import run

    catalog.load_encoder = load_encoder
    run()
