"""Choose the mode that ``auto`` stands for in a request."""

from typing import Literal

from retriever.core.requests import SearchRequest

Chosen = Literal["dense", "lexical", "hybrid"]


def auto_mode(request: SearchRequest) -> Chosen:
    """Choose the mode of a request that leaves it open: vectors and words together, or vectors alone with ``like``.

    Without an instruction this rule loses least where it loses most, of all that benchmarks/search_modes.py compares on
    passages, restaurant and product reviews, stories and customers' questions, with the base encoder of new indexes: at
    worst it is 0.2 points of nDCG@10 behind the best single mode of a corpus, vectors alone 13.0, words alone 24.7. An
    instruction is nothing that words alone could follow.
    """
    return "hybrid" if request.like is None else "dense"
