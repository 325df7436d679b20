"""Many ascending numbers as runs of neighbours, which is short for ids that were given one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.types import Ids


@dataclass(frozen=True, slots=True)
class Runs:
    """Ascending numbers: (r,) where each run begins and (r,) how many it has."""

    starts: Ids
    lengths: Ids


def runs_of(ids: Ids) -> Runs:
    """Return ascending ids (n,) as runs."""
    if not len(ids):
        return Runs(ids, ids)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ids) != 1) + 1])
    return Runs(ids[starts], np.diff(starts, append=len(ids)))


def joined(parts: Sequence[Runs]) -> Ids:
    """Return the numbers of several parts that share none, ascending (n,)."""
    starts = np.concatenate([np.empty(0, np.int64), *(one.starts for one in parts)])
    lengths = np.concatenate([np.empty(0, np.int64), *(one.lengths for one in parts)])
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.sort(np.repeat(starts, lengths) + within)
