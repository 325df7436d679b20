"""Sources that an encoder reads texts for: the base view, and the view of a question."""

from collections.abc import Mapping

from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.index.encoding import describe
from retriever.index.sources.source import Source


class Plain(Source):
    """The base view: texts as they are, by the base encoder."""

    kind = "plain"
    reads = True
    windowed = True

    @property
    def encoder(self) -> Encoder:
        """The encoder of its view."""
        return self.context.encoders.of(self.instruction)

    @property
    def name(self) -> str:
        """Name of that encoder, as the index describes it; empty where it has none."""
        descriptions = self.context.encoders.descriptions
        return "" if descriptions is None else str(descriptions.of(self.instruction).get("name") or "")

    def describe(self) -> Mapping[str, JSON] | None:
        """Describe that encoder; None where a server reads, which this process asks."""
        return describe(self.encoder) if self.encoder.at_once == 1 else None


class Instructed(Plain):
    """The base view for queries under an instruction, by an encoder that follows it in the query alone."""

    def __init__(self, base: Source, instruction: str) -> None:
        super().__init__(base.context, base.key, view=base.view)
        self._asked = instruction

    @property
    def query_instruction(self) -> str:
        """The instruction that queries are read under."""
        return self._asked


class Question(Plain):
    """Texts as the instruction encoder reads them under a question."""

    kind = "question"
    windowed = False

    @property
    def evidence(self) -> bool:
        """Whether another encoder fills the base view."""
        return self.context.encoders.separate
