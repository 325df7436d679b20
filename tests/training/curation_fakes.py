"""An encoder whose cosines are written down: a text's vector is looked up, under an instruction where that has one."""

import numpy as np

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.types import Encoded


class TableEncoder(Encoder):
    """Looks up (text, instruction), then the text; angles in degrees in the plane, so a cosine is that of a difference.

    Args:
        angles: degrees by text, or by (text, instruction).
    """

    spec = EncoderSpec("table", 2)

    def __init__(self, angles):
        self.angles = angles
        self.calls = []

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(self.rows(texts, one), [[] for _ in texts]) for one in instructions]

    def rows(self, texts, instruction):
        self.calls.append((tuple(texts), instruction))
        degrees = [self.angles.get((text, instruction), self.angles.get(text)) for text in texts]
        radians = np.radians(np.array(degrees, dtype=np.float64))
        return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
