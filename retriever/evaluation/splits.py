"""Which rows are held out where a file does not say: the same rule for training and for evaluation."""

import hashlib
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "dev", "test"]


def split_of(name: str) -> Split:
    """Return the split of a text, or of the story or document it is from.

    SHA-256 of the name in lower case with single spaces, the first 8 hex digits modulo 10: 8 is dev, 9 is test, the
    rest train.
    """
    digest = hashlib.sha256(" ".join(name.lower().split()).encode()).hexdigest()
    bucket = int(digest[:8], 16) % 10
    return "test" if bucket == 9 else "dev" if bucket == 8 else "train"
