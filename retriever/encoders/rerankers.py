"""Rerankers by name: models that read a query and a text together and give a score, `retriever.core.requests.RERANK`.

Importing this loads no model library.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from retriever.core.errors import EncoderError
from retriever.core.registry import require_extra
from retriever.encoders.answers.places import ENCODERS, Place

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Spend

LOCAL = "st"
"""Prefix of the names of rerankers on this machine: ``st:FOLDER``."""


class Reranker(Protocol):
    """Scores texts for a query.

    Attributes:
        place: its name, and where it gets texts.
        fingerprint: over all that is known of what its scores depend on.
    """

    place: Place
    fingerprint: str

    def score(self, query: str, texts: Sequence[str], *, spend: "Spend | None" = None) -> list[float]:
        """Return a score for each text, finite, higher where it answers the query better.

        ``spend`` is told of tokens that are sent.

        Raises:
            EncoderError: the model cannot be loaded, or its endpoint cannot be asked.
            ReadingLimitError: a limit of tokens is reached.
        """


def load_reranker(name: str, *, device: str = "auto") -> Reranker:
    """Return a reranker by its name, ``st:FOLDER`` or ``http:URL#MODEL``; nothing is loaded or asked yet.

    Raises:
        EncoderError: there is none of that name, or its endpoint may not be used.
        RetrieverError: the packages of its extra are missing.
    """
    method, _, rest = name.partition(":")
    if method == LOCAL:
        require_extra("peers")
        from retriever.encoders.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(name, rest, device=device)
    if method == ENCODERS:
        require_extra("chat")
        from retriever.encoders.answers.reranking import EndpointReranker

        return EndpointReranker(name)
    raise EncoderError(f"There is no reranker {name!r}.", hint=f"Say {LOCAL}:FOLDER or {ENCODERS}:URL#MODEL.")
