"""What a lazy search reaches: how many candidates the budget reads, and how far their order is then the view's own.

The figures are measured by benchmarks/lazy_agreement.py, which writes ``lazy_agreement.json`` beside this file. They
hold for the encoder and the corpora named there; another corpus can lie above or below.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from retriever.services.results import LazyReach
from retriever.services.searching import CANDIDATES, PROMPT_TOKENS, TOKEN_BUDGET

WANTED = 0.95
TABLE = "lazy_agreement.json"


def measured() -> list[Mapping[str, Any]]:
    """Return the measurements that are shipped, one an encoder."""
    text = files("retriever.services").joinpath(TABLE).read_text(encoding="utf-8")
    found: list[Mapping[str, Any]] = json.loads(text)["measured"]
    return found


def lazy_reach(fingerprint: str, texts: int, tokens_per_text: float, table: Sequence[Mapping[str, Any]]) -> LazyReach:
    """Return what lazy searches reach.

    Args:
        fingerprint: of the index's encoder.
        texts: how many the index has.
        tokens_per_text: of these, on average.
        table: measurements as `measured` returns them.
    """
    candidates = max(1, int(TOKEN_BUDGET / (tokens_per_text + PROMPT_TOKENS)))
    if texts <= min(candidates, CANDIDATES):
        return LazyReach(texts, 1.0, WANTED, texts, ())  # the first search completes the view
    found = next((one for one in table if one["fingerprint"] == fingerprint), None)
    if found is None:
        return LazyReach(candidates, None, WANTED, None, ())
    curve = [(int(one["candidates"]), float(one["agreement"])) for one in found["curve"]]
    return LazyReach(
        candidates,
        round(_at(curve, candidates), 2),
        WANTED,
        _first(curve, WANTED),
        [str(one["name"]) for one in found["corpora"]],
    )


def _at(curve: Sequence[tuple[int, float]], candidates: int) -> float:
    """Return the agreement at a number of candidates, between those measured on a straight line."""
    below = [one for one in curve if one[0] <= candidates]
    above = [one for one in curve if one[0] > candidates]
    if not below or not above:
        return (below[-1] if below else curve[0])[1]
    (left, low), (right, high) = below[-1], above[0]
    return low + (high - low) * (candidates - left) / (right - left)


def _first(curve: Sequence[tuple[int, float]], wanted: float) -> int | None:
    """Return the fewest candidates that reach an agreement, rounded up; None where none measured does."""
    before: tuple[int, float] | None = None
    for candidates, agreement in curve:
        if agreement >= wanted:
            if before is None or agreement == before[1]:
                return candidates
            share = (wanted - before[1]) / (agreement - before[1])
            return -int(-(before[0] + share * (candidates - before[0])) // 1)
        before = (candidates, agreement)
    return None
