"""A part of a user's own rows kept out of training, to measure with."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retriever.core.errors import InputError, UsageError
from retriever.training.rows import TrainingRow

HELD_OUT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows to train on, and rows to measure with; no text is on both sides."""

    train: list[TrainingRow]
    held_out: list[TrainingRow]


def hold_out(rows: Sequence[TrainingRow], *, share: float = HELD_OUT_SHARE, seed: int = 0) -> HeldOut:
    """Keep a share of the texts, with all of their rows, out of training.

    Texts are the same whatever their case, spaces and punctuation. Every question gives about the same share of its
    texts, the rarest question first; where questions are too rare for that, as when each is asked once, texts are taken
    until their share is reached. Which texts is decided by their hash and the seed, so a row that is added or moved
    hardly changes it. Both sides keep the order of the rows.

    Raises:
        UsageError: the share is not between 0 and 1.
        InputError: there are fewer than two texts.
    """
    if not 0 < share < 1:
        raise UsageError(f"The held-out share is {share}.", hint="Give a share between 0 and 1, such as 0.1.")
    groups: dict[str, set[str]] = defaultdict(set)
    keys = [row.text_key for row in rows]
    for key, row in zip(keys, rows, strict=True):
        groups[key].add(row.group)
    if len(groups) < 2:
        raise InputError(
            f"The rows have {len(groups)} different texts.", hint="Two are needed: one to learn from, one to measure."
        )
    held = _choose(groups, share, seed)
    sides: tuple[list[TrainingRow], list[TrainingRow]] = [], []
    for key, row in zip(keys, rows, strict=True):
        sides[key in held].append(row)
    return HeldOut(*sides)


def _choose(groups: Mapping[str, set[str]], share: float, seed: int) -> set[str]:
    """Return the texts to hold out, given every text's questions: at least one, and not all."""
    order = sorted(groups, key=lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest())
    by_group: dict[str, list[str]] = defaultdict(list)
    for text in order:
        for group in groups[text]:
            by_group[group].append(text)
    wanted = min(max(1, round(share * len(order))), len(order) - 1)
    held: set[str] = set()
    taken: Counter[str] = Counter()
    for group, texts in sorted(by_group.items(), key=lambda one: (len(one[1]), one[0])):
        for text in texts:
            if taken[group] >= round(share * len(texts)) or len(held) >= wanted:
                break
            if text not in held:
                held.add(text)
                taken.update(groups[text])
    held.update([text for text in order if text not in held][: wanted - len(held)])
    return held
