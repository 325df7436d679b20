"""An encoder whose cosines are written down: a text's vector is looked up, under an instruction where that has one."""

import numpy as np

from retriever.core.types import Encoded


class TableEncoder:
    """Looks up (text, instruction), then the text; angles in degrees in the plane, so a cosine is that of a difference.

    Args:
        angles: degrees by text, or by (text, instruction).
    """

    dim = 2
    fingerprint = "table"

    def __init__(self, angles):
        self.angles = angles
        self.calls = []

    def encode(self, texts, *, instruction="", batch_size=None, show_progress=False):
        self.calls.append((tuple(texts), instruction))
        degrees = [self.angles.get((text, instruction), self.angles.get(text)) for text in texts]
        radians = np.radians(np.array(degrees, dtype=np.float64))
        return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)

    def encode_many(self, texts, instructions, *, batch_size=None, show_progress=False):
        return [self.encode(texts, instruction=one) for one in instructions]

    def encode_with_words(self, texts, *, instruction="", top=5):
        return Encoded(self.encode(texts, instruction=instruction), [[] for _ in texts])
