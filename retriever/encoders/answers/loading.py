"""The door to what answers questions about texts, by name."""

from typing import TYPE_CHECKING

from retriever.core.errors import UsageError
from retriever.core.registry import require_extra
from retriever.encoders.answers.places import METHOD

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Answerer


def load_answerer(name: str) -> "Answerer":
    """Load a language model behind an endpoint, which nothing is asked yet: ``chat:MODEL`` or ``chat:URL#MODEL``.

    Raises:
        UsageError: the name is of none.
        EncoderError: the endpoint may not be used.
        RetrieverError: the packages of the extra are missing.
    """
    if not name.startswith(f"{METHOD}:"):
        raise UsageError(f"{name!r} writes no answers.", hint="Name chat:MODEL, chat:URL#MODEL, given or default.")
    require_extra("chat")
    from retriever.encoders.answers.chat import ChatAnswerer

    return ChatAnswerer(name)
