"""The pieces that the shipped models are trained in: their rows, settings and order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """A folder of rows.

    Attributes:
        share: numerator and denominator of the share of all texts that `mixture.py` asks about.
        seed: of what is drawn.
        finding: share of those texts that rows which look for something are made of beside them; 0 for none.
        kinds: whether rows of many kinds of question are beside them, and texts in many voices.
    """

    share: tuple[int, int]
    seed: int
    finding: float = 0.0
    kinds: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the training: the folder of its rows, its settings, and what it goes on from.

    ``keep`` is the share of the piece before in the mean of weights that ships.
    """

    rows: str
    settings: str
    base: str
    keep: float = 0.0


ROWS = {
    "rows": Rows((1, 1), 0),
    "rows-2": Rows((3, 4), 1),
    "rows-3": Rows((1, 2), 2),
    "rows-4": Rows((1, 7), 3, finding=1.0),
    "answers": Rows((15, 4), 0, finding=0.1, kinds=True),
}
PIECES = {
    "default": Piece("answers", "instructor", "instructor:all-minilm-l6-v2"),
    "default-2": Piece("answers", "instructor-again", "instructor:all-minilm-l6-v2", keep=0.5),
    "instemb": Piece("rows", "instemb", "instemb:smollm2-135m"),
    "instemb-2": Piece("rows-2", "further", "build/instemb"),
    "instemb-3": Piece("rows-4", "finding", "build/instemb-2", keep=0.4),
    "gircse": Piece("rows-2", "gircse", "build/instemb-2"),
    "gircse-2": Piece("rows-3", "gircse-further", "build/gircse"),
}
MODELS = {
    "default": ("default", "default-2"),
    "instemb": ("instemb", "instemb-2", "instemb-3"),
    "gircse": ("gircse", "gircse-2"),
}
"""The pieces of what ships, in order."""
