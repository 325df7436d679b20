"""The limits of a server: what one request may ask for, and how much may go on at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from retriever.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server; docs/server.md has them as a table.

    Attributes:
        body_bytes: of a request's body.
        body_seconds: until a request's head is there whole, and then its body; and until a client that stopped reading
            its answer goes on.
        texts: of one request for embeddings.
        text_characters: of a text or a query.
        instruction_characters: of an instruction.
        hits: of one search.
        documents: of one request that adds, deletes or fetches.
        seconds: until a request is answered.
        waiting_texts: texts that may wait for the model.
        threads: searches and other requests to indexes that are worked on at a time.
        waiting_requests: of those, how many more may wait.
        jobs: jobs that run at a time.
        kept_jobs: jobs that are over and can still be asked for.
        connections: open ones.
        grace_seconds: that requests under way get when the server is stopped.

    Raises:
        UsageError: one of them is below 1.
    """

    body_bytes: int = 16_000_000
    body_seconds: float = 30
    texts: int = 2048
    text_characters: int = 100_000
    instruction_characters: int = 2000
    hits: int = 1000
    documents: int = 1000
    seconds: float = 60
    waiting_texts: int = 4096
    threads: int = 8
    waiting_requests: int = 128
    jobs: int = 2
    kept_jobs: int = 32
    connections: int = 1024
    grace_seconds: int = 10

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 1 and one.name not in ("body_seconds", "seconds"):
                raise UsageError(f"The limit {one.name} is {getattr(self, one.name)}.", hint="It is at least 1.")
        if min(self.body_seconds, self.seconds) <= 0:
            raise UsageError("A limit in seconds is not above 0.")

    @property
    def bodies_bytes(self) -> int:
        """Of the bodies of all requests under way together."""
        return 16 * self.body_bytes

    def check_texts(self, texts: Sequence[str], field: str) -> None:
        """Refuse too many texts, and texts that are blank or too long.

        Raises:
            UsageError: the field, and the place of the text in it, are named.
        """
        if not texts:
            raise UsageError(f"{field} is empty.", hint="Send at least one text.")
        if len(texts) > self.texts:
            raise UsageError(f"{field} holds {len(texts)} texts.", hint=f"Send {self.texts} at most at a time.")
        for place, text in enumerate(texts):
            name = f"{field}[{place}]" if len(texts) > 1 else field
            if not text.strip():
                raise UsageError(f"{name} is an empty text.", hint="Leave it out, or send what it should say.")
            self.check_text(text, name)

    def check_text(self, text: str, field: str) -> None:
        """Refuse a text that is too long.

        Raises:
            UsageError: the field is named.
        """
        _check_length(text, self.text_characters, field)

    def check_instruction(self, *instructions: str) -> None:
        """Refuse an instruction that is too long.

        Raises:
            UsageError: it is.
        """
        for one in instructions:
            _check_length(one, self.instruction_characters, "instruction")

    def check_hits(self, k: int) -> None:
        """Refuse a search for too many hits.

        Raises:
            UsageError: it is.
        """
        if k > self.hits:
            raise UsageError(f"k is {k}.", hint=f"Ask for {self.hits} hits at most.")

    def check_documents(self, count: int) -> None:
        """Refuse too many documents, or none.

        Raises:
            UsageError: there are too many, or none.
        """
        if not 1 <= count <= self.documents:
            raise UsageError(f"The request names {count} documents.", hint=f"Send 1 to {self.documents} at a time.")


def _check_length(text: str, most: int, field: str) -> None:
    if len(text) > most:
        raise UsageError(f"{field} has {len(text)} characters.", hint=f"{most} are read at most.")
