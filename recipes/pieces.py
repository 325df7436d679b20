"""The pieces that the shipped models are trained in: their rows, settings and order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """A folder of rows.

    Attributes:
        share: numerator and denominator of the share of all texts that `mixture.py` asks about.
        seed: of what is drawn.
        finding: whether rows that look for something are beside them.
        kinds: whether rows of many kinds of question are, and then most are.
    """

    share: tuple[int, int]
    seed: int
    finding: bool = False
    kinds: bool = False


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
    "rows-5": Rows((2, 5), 7, kinds=True),
}
PIECES = {
    "default": Piece("rows", "default", "instemb:smollm2-135m"),
    "default-2": Piece("rows-2", "further", "build/default"),
    "default-3": Piece("rows-5", "follow", "build/default-2"),
    "default-4": Piece("rows-4", "finding", "build/default-3"),
    "gircse": Piece("rows-2", "gircse", "build/default-3"),
    "gircse-2": Piece("rows-3", "gircse-further", "build/gircse"),
}
MODELS = {
    "default": Model(("default", "default-2", "default-3", "default-4"), keep=0.4),
    "gircse": Model(("gircse", "gircse-2"), after="default-3"),
}
