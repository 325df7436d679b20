"""How many steps a query is worth: more where its first hits lie close together, fewer where one clearly leads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import EncoderError
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.services.encoding import with_steps

FIRST_HITS = 10
"""Hits whose cosines are compared."""

Steps: TypeAlias = int | Literal["auto"] | None
"""K of a query: a number, as many as its hits ask for, or the encoder's own."""

FirstHits = Callable[[Embeddings], list[list[int]]]
"""Gives the content ids of the first hits of every vector (n, dim), best first."""

Cosines = Callable[[NDArray[np.float32], Sequence[int]], Mapping[int, float]]
"""Gives the cosine of a vector (dim,) with each of some contents."""


@dataclass(frozen=True, slots=True)
class EmbeddedQueries:
    """Queries as vectors.

    Attributes:
        vectors: (n, dim).
        steps: K spent on each; None where the encoder has none.
    """

    vectors: Embeddings
    steps: Sequence[int | None]


def embed_queries(
    encoder: Encoder, queries: Sequence[str], instruction: str, steps: Steps, first_hits: FirstHits, cosines: Cosines
) -> EmbeddedQueries:
    """Embed queries with a number of steps, or with as many as each needs.

    With ``auto`` a query gets two steps, then one more at a time until its hits have settled (`settled`) or it has the
    encoder's own K. Its soft tokens and its cache go on; nothing is read twice. Queries of one batch take their steps
    together, so one that has settled saves time only when the others have too.

    Args:
        encoder: what to embed with.
        queries: texts.
        instruction: what they are read under.
        steps: K, ``auto``, or None for the encoder's own.
        first_hits: finds the hits to look at.
        cosines: compares a query with them.

    Raises:
        EncoderError: the encoder has no steps, or cannot go on from one to the next.
    """
    if steps == "auto":
        return _until_settled(encoder, queries, instruction, first_hits, cosines)
    encoder = with_steps(encoder, steps)
    return EmbeddedQueries(encoder.encode(queries, instruction=instruction), own_steps(encoder, len(queries)))


def own_steps(encoder: Encoder, queries: int) -> list[int | None]:
    """Return the encoder's own K for every query."""
    return [getattr(encoder, "steps", None)] * queries


def settled(now: Mapping[int, float], before: Mapping[int, float]) -> bool:
    """Return whether the first hit stays first if another step moves the cosines as the last one did.

    With f the hit of highest cosine, s_K(h) the cosine of hit h with z_K, and gap_K(h) = s_K(f) - s_K(h), that is
    gap_K(h) >= |gap_K(h) - gap_(K-1)(h)| for every other hit h. The measure is the movement itself, so no threshold
    has to fit the model. Later steps move a mean of states less and less.

    Args:
        now: cosines of the first hits with z_K.
        before: of the same with z_(K-1).
    """
    if not now:
        return True
    first = max(now, key=lambda hit: now[hit])
    gaps = ((now[first] - now[hit], before[first] - before[hit]) for hit in now)
    return all(gap >= abs(gap - earlier) for gap, earlier in gaps)


def _until_settled(
    encoder: Encoder, queries: Sequence[str], instruction: str, first_hits: FirstHits, cosines: Cosines
) -> EmbeddedQueries:
    stepwise = getattr(encoder, "encode_stepwise", None)
    if stepwise is None:
        raise EncoderError("This index's encoder has no steps to choose.", hint="--steps auto is for GIRCSE encoders.")
    vectors = np.zeros((len(queries), encoder.dim), dtype=np.float32)
    spent = np.zeros(len(queries), dtype=np.int64)
    for rows, walk in stepwise(queries, instruction=instruction):
        before: Embeddings | None = None
        waiting = np.arange(len(rows))  # places in the batch
        for now in walk:  # z_1, z_2, ..., (B, dim)
            at = np.asarray(rows)[waiting]
            vectors[at] = now[waiting]
            spent[at] += 1
            if before is not None:
                hits = first_hits(now[waiting])
                pairs = zip(waiting.tolist(), hits, strict=True)
                waiting = np.array(
                    [i for i, ids in pairs if not settled(cosines(now[i], ids), cosines(before[i], ids))],
                    dtype=np.int64,
                )
            if not len(waiting):
                break
            before = now
    return EmbeddedQueries(vectors, spent.tolist())
