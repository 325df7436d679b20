"""How a text and an instruction become one prompt. Strings only; tokens are `encoders.tokenize`'s business."""

from dataclasses import dataclass

from retriever.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt in three pieces, tokenised apart and joined: ``before`` the text, the text, and ``after`` it.

    One of the two holds ``{instruction}``. The ``name`` is stored with checkpoints and indexes.
    """

    name: str
    before: str
    after: str

    def __post_init__(self) -> None:
        if (self.before + self.after).count("{instruction}") != 1:
            raise UsageError(f"Template {self.name!r} must hold {{instruction}} exactly once.")

    @property
    def text_first(self) -> bool:
        """Whether the text's attention prefix is independent of the instruction."""
        return "{instruction}" not in self.before

    def prefix(self, instruction: str) -> str:
        """Return the piece before the text."""
        return self.before.replace("{instruction}", instruction)

    def suffix(self, instruction: str) -> str:
        """Return the piece after the text."""
        return self.after.replace("{instruction}", instruction)


TEMPLATES = {
    template.name: template
    for template in (
        # InBedder's pattern (Peng et al., 2024): causal attention reads the text before the instruction.
        PromptTemplate("input-first", "### Input:\n", "\n\n### Instruction:\n{instruction}\n\n### Response:"),
        # The E5-mistral family's pattern, which GIRCSE's published checkpoints use.
        PromptTemplate("instruct-query", "Instruct: {instruction}\nQuery:", ""),
    )
}


def get_template(name: str) -> PromptTemplate:
    """Return the named template; raise `UsageError` where there is none."""
    try:
        return TEMPLATES[name]
    except KeyError:
        raise UsageError(f"Unknown template {name!r}.", hint=f"Known: {', '.join(sorted(TEMPLATES))}.") from None
