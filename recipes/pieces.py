"""The pieces that the shipped models are trained in, as `make train` has them, for training them elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """A folder of rows: the share of all texts it asks about, the seed, and whether half of it looks for something.

    The share is a numerator and a denominator.
    """

    share: tuple[int, int]
    seed: int
    finding: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the training: the folder of its rows, its settings, and what it goes on from."""

    rows: str
    settings: str
    base: str


@dataclass(frozen=True, slots=True)
class Model:
    """What ships: its pieces in order, the share of the weights before the last one, and the piece it goes on from."""

    pieces: tuple[str, ...]
    keep: float = 0.0
    after: str | None = None


ROWS = {
    "rows": Rows((1, 1), 0),
    "rows-2": Rows((3, 4), 1),
    "rows-3": Rows((1, 2), 2),
    "rows-4": Rows((1, 7), 3, finding=True),
}
PIECES = {
    "default": Piece("rows", "default", "instemb:smollm2-135m"),
    "default-2": Piece("rows-2", "further", "build/default"),
    "default-3": Piece("rows-4", "finding", "build/default-2"),
    "gircse": Piece("rows-2", "gircse", "build/default-2"),
    "gircse-2": Piece("rows-3", "gircse-further", "build/gircse"),
}
MODELS = {
    "default": Model(("default", "default-2", "default-3"), keep=0.4),
    "gircse": Model(("gircse", "gircse-2"), after="default-2"),
}
