"""The output of an export beside the weights: the folder's card, and the name of what loads it."""

from dataclasses import dataclass

from retriever.encoders.base import PromptEncoder


@dataclass(frozen=True, slots=True)
class Written:
    """A folder that was written for other programs.

    Attributes:
        loader: what loads it: ``sentence-transformers``, or a file of the folder.
        card: text for its README.md.
    """

    loader: str
    card: str


def card_facts(encoder: PromptEncoder, name: str) -> dict[str, object]:
    """Collect the facts that every card states of an encoder, which goes into a folder of the given name."""
    return {
        "name": name,
        "spec": f"`{encoder.name}`",
        "instruction": f"*{encoder.options.default_instruction}*",
        "text": encoder.max_text_tokens,
    }
