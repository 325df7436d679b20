"""Describe the clustering on a page, as state that a URL carries, and the reviews that are chosen of it."""

import json
from dataclasses import dataclass, replace
from typing import Literal

MOST_GROUPS = 35
DEEPEST = 5  # times that one may look closer at a part
UNIT = 10_000  # the map's half width in the numbers an area is told in
FARTHEST = 100 * UNIT
MOST_CORNERS = 60  # of an area


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a clustering.

    Attributes:
        groups: clusters asked for; 0 for the number that sets them most apart.
        clusters: the numbers of those chosen; empty for all.
        area: x and y of the corners of what is chosen on the map, in ten-thousandths; empty for all of it.
    """

    instruction: str = ""
    groups: int = 0
    clusters: tuple[int, ...] = ()
    area: tuple[int, ...] = ()

    def spell(self) -> str:
        """Return the part as a text that `read_part` reads."""
        parts = [self.instruction, self.groups, self.clusters, self.area]
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Ask:
    """One clustering that is wanted.

    Attributes:
        groups: how many; 0 for the number that sets them most apart.
        where: a filter over metadata that all reviews pass.
        within: the parts looked closer at, from all reviews down to what is clustered.
    """

    instruction: str = ""
    groups: int = 0
    where: str | None = None
    within: tuple[Part, ...] = ()

    @property
    def parent(self) -> "Ask":
        """The clustering that the last part is of."""
        part = self.within[-1]
        return replace(self, instruction=part.instruction, groups=part.groups, within=self.within[:-1])


@dataclass(frozen=True, slots=True)
class Grouping:
    """The state of the page.

    Attributes:
        groups: how many; 0 for the number that sets them most apart.
        show: one clustering on a map, what flows between two, or saved ones.
        beside: what the second clustering answers.
        within: the parts looked closer at, spelled.
        area: x and y of the corners of what is chosen on the map, in ten-thousandths.
        saved: the name of the saved clustering that is shown.
        flow: the flow that is chosen: its cluster under the first instruction and under the second.
        before: the earlier of two periods that saved clusters are compared in, as 2024-05, 2024-Q2 or 2024.
        after: the later one.
    """

    instruction: str = ""
    groups: int = 0
    show: Literal["map", "flow", "saved"] = "map"
    beside: str = ""
    saved: str = ""
    within: tuple[str, ...] = ()
    clusters: tuple[int, ...] = ()
    area: tuple[int, ...] = ()
    flow: tuple[int, ...] = ()
    before: str = ""
    after: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", min(max(self.groups, 0), MOST_GROUPS))
        object.__setattr__(self, "within", tuple(one for one in self.within if read_part(one))[:DEEPEST])
        object.__setattr__(self, "area", read_area(self.area))
        object.__setattr__(self, "flow", self.flow if len(self.flow) == 2 else ())

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts looked closer at."""
        return tuple(part for part in map(read_part, self.within) if part)

    @property
    def chosen(self) -> Part:
        """The part that is chosen of the clustering on the page."""
        return Part(self.instruction.strip(), self.groups, self.clusters, self.area)

    def ask(self, where: str | None, instruction: str | None = None) -> Ask:
        """Return the clustering the page is about, under a filter; or the same under another instruction."""
        wanted = self.instruction if instruction is None else instruction
        return Ask(wanted.strip(), self.groups, where, self.parts)


def read_part(spelled: str) -> Part | None:
    """Return the part a text spells, or None where it spells none."""
    try:
        instruction, groups, clusters, area = json.loads(spelled)
        part = Part(str(instruction), int(groups), tuple(map(int, clusters)), read_area(tuple(map(int, area))))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return part if part.clusters or part.area else None


def read_area(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return x and y of the corners of an area, or nothing where they enclose none."""
    corners = len(numbers) // 2
    near = all(abs(one) <= FARTHEST for one in numbers)
    return numbers if near and len(numbers) % 2 == 0 and 3 <= corners <= MOST_CORNERS else ()
