"""Colours of the app's charts, one set a theme: readable on its ground, and told apart by the colour-blind."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours that charts are drawn with.

    Attributes:
        ground: the page's own.
        text: of names and figures.
        quiet: of what stands back.
        up: of what moved up.
        down: of what moved down.
        clusters: of clusters; where they are used up, the shape tells two of one colour apart.
    """

    ground: str
    text: str
    quiet: str
    up: str
    down: str
    clusters: tuple[str, ...]

    def of(self, cluster: int) -> str:
        """Return the colour of a cluster."""
        return self.clusters[cluster % len(self.clusters)]

    def shape(self, cluster: int) -> str:
        """Return the shape of a cluster's points."""
        return SHAPES[cluster // len(self.clusters) % len(SHAPES)]


SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
LIGHT = Colours(
    ground="#ffffff",
    text="#1b2430",
    quiet="#75808f",
    up="#0072b2",
    down="#d55e00",
    clusters=("#0072b2", "#d55e00", "#117733", "#882255", "#999933", "#332288", "#1b9e77"),
)
DARK = Colours(
    ground="#12161c",
    text="#e5e9ef",
    quiet="#8b96a5",
    up="#7fb5ec",
    down="#e69f00",
    clusters=("#7fb5ec", "#e69f00", "#a6dba0", "#d1605e", "#f2e05c", "#9970ab", "#8f7ee8"),
)
