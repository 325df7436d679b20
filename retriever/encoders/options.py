"""What can be chosen of an encoder. Importing this loads no model library."""

from dataclasses import dataclass

DEFAULT_TEMPLATE = "input-first"
DEFAULT_INSTRUCTION = "Represent the meaning of the text."


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Settings of an encoder that can be changed once it is loaded, without loading it again.

    Attributes:
        pooling: how hidden states become one vector; None takes the method's default.
        steps: K, soft tokens (GIRCSE) or generated tokens (InBedder).
        look_ahead: L, look-ahead tokens (InstEmb).
        template: name of the prompt template; None for ``input-first``.
        default_instruction: what an empty instruction stands for.
    """

    pooling: str | None = None
    steps: int | None = None
    look_ahead: int | None = None
    template: str | None = None
    default_instruction: str = DEFAULT_INSTRUCTION
