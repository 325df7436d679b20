"""Requests to the page Groups: the state that a link carries, and the grouping that it comes to."""

from dataclasses import dataclass

from retriever.clusters.budget import BUDGET

MOST_GROUPS = 35
MOST_READ = 10_000_000
AT_ONCE = 60  # reviews that are read without asking first
OWN = -1
"""The number of groups that stands for categories that somebody names."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One grouping that is wanted; fields that `Grouping` has too mean the same.

    Attributes:
        into: names of categories; empty for groups that are found.
        where: a filter over metadata that all reviews pass.
        saved: in the place of all else.
        edited: which changes of the saved grouping hold.
        stored: whether it is made of what is stored, and nothing is sent to a language model.
    """

    instruction: str = ""
    groups: int = 0
    into: tuple[str, ...] = ()
    several: bool = False
    where: str | None = None
    read: int = BUDGET
    saved: str = ""
    edited: tuple[int, ...] = ()
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Grouping:
    """The state of the page.

    Attributes:
        groups: how many; 0 for the number that sets them most apart, `OWN` for categories that somebody names.
        into: their names, separated by commas.
        several: whether a review may be in several of them.
        read: texts to read, where a language model reads the instruction.
        saved: the name of the saved grouping that is shown; empty for a new one.
        clusters: numbers of the groups that are chosen; empty for all.
    """

    instruction: str = ""
    groups: int = 0
    into: str = ""
    several: bool = False
    read: int = BUDGET
    saved: str = ""
    clusters: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", min(max(self.groups, OWN), MOST_GROUPS))
        object.__setattr__(self, "read", min(max(self.read, 1), MOST_READ))

    @property
    def names(self) -> tuple[str, ...]:
        """The categories that somebody named, if they are wanted."""
        given = (" ".join(name.split()) for name in self.into.split(","))
        return tuple(filter(None, given)) if self.groups == OWN else ()

    @property
    def lacks(self) -> str:
        """The input that is missing before there can be groups; empty for nothing."""
        if self.saved or self.groups != OWN:
            return ""
        if not self.instruction.strip():
            return "Enter the question that your categories answer."
        return "" if len(self.names) > 1 else "Enter two categories or more, separated by commas."

    def ask(self, where: str | None, edited: tuple[int, ...] = ()) -> Ask:
        """Return the grouping that the page is about, under a filter."""
        if self.saved:
            return Ask(saved=self.saved, edited=edited)
        instruction, groups = self.instruction.strip(), max(self.groups, 0)
        return Ask(instruction, groups, self.names, self.several and bool(self.names), where, self.read)
