"""Texts read under instructions of their own."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings


def encode_each(encoder: Encoder, texts: Sequence[str], instructions: Sequence[str]) -> Embeddings:
    """Return (n, dim) vectors of n texts, each under the instruction beside it; equal pairs are read once.

    They are read instruction by instruction where there are fewer instructions than texts, else text by text, so that
    a text is read once for all of its instructions.
    """
    pairs = {pair: number for number, pair in enumerate(dict.fromkeys(zip(texts, instructions, strict=True)))}
    by_text: dict[str, list[str]] = defaultdict(list)
    by_instruction: dict[str, list[str]] = defaultdict(list)
    for text, instruction in pairs:
        by_text[text].append(instruction)
        by_instruction[instruction].append(text)
    vectors = np.empty((len(pairs), encoder.dim), dtype=np.float32)
    if len(by_instruction) <= len(by_text):
        for instruction, read in by_instruction.items():
            vectors[[pairs[text, instruction] for text in read]] = encoder.encode(read, instruction=instruction)
    else:
        for text, asked in by_text.items():
            vectors[[pairs[text, one] for one in asked]] = np.concatenate(encoder.encode_many([text], asked))
    return vectors[[pairs[pair] for pair in zip(texts, instructions, strict=True)]]
