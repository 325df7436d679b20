"""Draw the texts of a corpus that are read, in an order that never changes.

Every text has a permanent random number, made of the text alone, and a sample is all texts whose number is at most a
threshold. So samples of two days, of two questions, or of a corpus and a part of it overlap as far as they can, and a
text that comes or goes changes nothing but its own place (Brewer, Early and Joyce 1972; Ohlsson, "Coordination of
samples using permanent random numbers", 1995). Given its size, such a sample is a simple random one.

This module knows numbers and masks; it knows nothing of what was answered.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_KEY = b"retriever sample"  # fixed: another key would be another order of all texts
_SPARE_BITS, _BITS = 11, 53  # of 64 bits, a float holds 53


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Which texts have an answer, and which of these stand for all.

    Attributes:
        read: (n,) those with an answer, whoever wanted it.
        drawn: (n,) of these, the ones that were drawn; where all were read, all of them.
    """

    read: Mask
    drawn: Mask

    @classmethod
    def to(cls, threshold: float, numbers: Floats, read: Mask) -> "Sample":
        """Return the sample of the texts whose numbers (n,) are at most a threshold, as far as they were read."""
        return cls(read, read if read.all() else read & (numbers <= threshold))


def permanent_numbers(hashes: Iterable[bytes]) -> Floats:
    """Return the permanent random numbers (n,) of texts, above 0 and at most 1, given the hashes of the texts."""
    digests = b"".join(blake2b(each, digest_size=8, key=_KEY).digest() for each in hashes)
    whole = np.frombuffer(digests, dtype=">u8") >> np.uint64(_SPARE_BITS)
    numbers: Floats = np.ldexp(whole.astype(np.float64) + 1, -_BITS)
    return numbers


def threshold_for(most: int, numbers: Floats, asked: Mask) -> float:
    """Return the largest threshold up to which all texts can be asked about, so that ``most`` are in all.

    The draw ends before the first text that there is no room for. Texts that searches chose, without regard to the
    numbers, then bias no share: of the texts before that one their share is unbiased (Haldane, "On a method of
    estimating frequencies", 1945). Where there is room for none, nothing is drawn.

    Args:
        most: how many texts may be asked about, those that were before included.
        numbers: (n,) of the texts, as `permanent_numbers` gives them.
        asked: (n,) those that were asked about, in the order or not.

    Returns:
        0, which draws none, where there is no room.
    """
    room = most - int(asked.sum())
    if room < 1 or not len(numbers):
        return 0.0
    order = np.argsort(numbers)
    end = int(np.searchsorted(np.cumsum(~asked[order]), room, side="right"))
    return float(numbers[order[end - 1]])


def due(most: int, threshold: float, numbers: Floats, asked: Mask) -> NDArray[np.int64]:
    """Return the rows of the texts to ask about, in their order: those drawn and not asked about, ``most`` in all.

    Arguments as for `threshold_for`.
    """
    rows = np.flatnonzero(~asked & (numbers <= threshold))
    return rows[np.argsort(numbers[rows])][: max(0, most - int(asked.sum()))]
