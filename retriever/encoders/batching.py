"""Which texts travel together: batches of similar length under one token budget."""

from collections.abc import Iterable, Iterator, Sequence


def token_budget(device: str, *, reads_on: bool, shares: bool = False) -> int:
    """Choose the maximum number of padded tokens in a batch.

    Args:
        device: torch's device type.
        reads_on: whether tokens are read one by one behind the prompts, which wants many rows at a time.
        shares: whether short blocks are read behind the texts, one for every instruction.
    """
    if device == "cuda":
        return 65_536
    return 16_384 if reads_on else 4096 if shares else 1536


def plan_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield positions of texts of similar length, longest first, each batch within the budget.

    Args:
        lengths: tokens of each text.
        budget: rows times longest row of a batch stays within it; a longer single text travels alone.
    """
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    start = 0
    while start < len(order):
        rows = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def distinct(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the distinct texts in order of appearance, and for every text its position among them."""
    seen: dict[str, int] = {}
    positions = [seen.setdefault(text, len(seen)) for text in texts]
    return list(seen), positions
