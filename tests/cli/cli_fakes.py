"""An encoder a person can compute by hand; run as a script, the whole command line over it."""

import hashlib

import numpy as np

import retriever
from retriever.core.types import Encoded

KEYWORDS = ("kettle", "lamp", "toy", "love", "hate", "broke")
PRODUCTS, MOODS = KEYWORDS[:3], KEYWORDS[3:5]
CORPUS = [
    {"id": "r1", "text": "The kettle broke.", "stars": 1, "category": "kitchen"},
    {"id": "r2", "text": "I love this kettle.", "stars": 5, "category": "kitchen"},
    {"id": "r3", "text": "I hate the lamp.", "stars": 2, "category": "light"},
    {"id": "r4", "text": "A lamp to love.", "stars": 4, "category": "light"},
    {"id": "r5", "text": "The toy broke.", "stars": 1, "category": "toy"},
]


class KeywordEncoder:
    """Counts keywords: of products if the instruction says so, of moods if it says so, else all; the last one is 1."""

    dim = len(KEYWORDS) + 1
    dtype = "float32"
    pooling = "keywords"

    def __init__(self, spec="keywords"):
        self.spec = spec
        self.fingerprint = hashlib.sha256(spec.encode()).hexdigest()

    def encode(self, texts, *, instruction="", batch_size=None, show_progress=False):
        rows = [[*(float(word in self.answers(text, instruction)) for word in KEYWORDS), 1.0] for text in texts]
        vectors = np.asarray(rows, np.float32).reshape(-1, self.dim)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_many(self, texts, instructions, *, batch_size=None, show_progress=False):
        return [self.encode(texts, instruction=one) for one in instructions]

    def encode_with_words(self, texts, *, instruction="", top=5):
        words = [self.answers(text, instruction)[:top] for text in texts]
        return Encoded(self.encode(texts, instruction=instruction), words)

    def answers(self, text, instruction):
        asked = PRODUCTS if "product" in instruction else MOODS if "mood" in instruction else KEYWORDS
        return [word for word in asked if word in text.lower()]


def load_encoder(name="default", *, device="auto", **options):
    return KeywordEncoder("keywords" if name == "default" else name)


if __name__ == "__main__":
    from retriever.cli.main import run

    retriever.load_encoder = load_encoder
    run()
