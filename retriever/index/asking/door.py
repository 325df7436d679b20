"""The door by which texts of an index leave for an encoder's endpoint: with permission, and within limits.

A language model and an encoder at one host need one permission, and share what a day may cost.
"""

from collections.abc import Callable

from retriever.index.asking.consent import Consent, not_allowed
from retriever.index.asking.limits import Budget, read_limits
from retriever.store.database import Store


class TextDoor:
    """Lets texts of one index out, as `retriever.core.door.Door` says.

    Attributes:
        granted: hosts that were allowed before the index had a database; they are kept with its first run.
        consent: whom a person allowed to get texts; None as long as there is no database.
        budget: gives the limits, and counts; None as long as there is no database.
    """

    def __init__(self, consent: Consent | None = None, budget: Callable[[], Budget] | None = None) -> None:
        self.granted: set[str] = set()
        self.consent = consent
        self.budget = budget

    def hosts(self) -> list[str]:
        """Return the hosts that this person allowed."""
        kept = [] if self.consent is None else self.consent.hosts()
        return [*kept, *self.granted.difference(kept)]

    def allow(self, host: str) -> None:
        """Allow texts to be sent to a host from now on."""
        self.granted.add(host)
        self.keep()

    def keep(self) -> None:
        """Keep with the person what was allowed, if the index is there."""
        if self.consent is not None:
            for host in self.granted.difference(self.consent.hosts()):
                self.consent.allow(host)

    def open(self, host: str, *, local: bool) -> None:
        """Let texts be sent to a host, and begin the minutes of the reading.

        Raises:
            ConsentError: nobody allowed that.
        """
        if not local and host not in self.hosts():
            raise not_allowed(host)
        if self.budget is not None:
            self.budget().begin()

    def send(self, texts: int) -> None:
        """Count texts that are about to be sent, or take some back that were not.

        Raises:
            ReadingLimitError: they are more than a limit leaves; nothing is counted.
        """
        if self.budget is not None:
            self.budget().send(texts)

    def before(self, tokens: int) -> None:
        """Count the tokens of a request that is about to be sent; errors as `send`."""
        if self.budget is not None:
            self.budget().before(tokens)

    def after(self, tokens: int) -> None:
        """Correct the count of tokens by what the server counted."""
        if self.budget is not None:
            self.budget().after(tokens)

    def close(self) -> None:
        """Store what was counted, unless this thread reads one state of the database: then later."""
        if self.budget is not None:
            self.budget().save()


def door_of(store: Store) -> TextDoor:
    """Return the door of an index that is not open as one, within the limits of the folder that it lies in."""
    known: list[Budget] = []

    def budget() -> Budget:
        if not known:
            known.append(Budget(store, read_limits(store.path.absolute().parent.parent)))
        return known[0]

    return TextDoor(Consent(store), budget)
