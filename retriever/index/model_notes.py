"""Notes on a model that somebody brought: what was recognised, and what seems wrong with it."""

from dataclasses import dataclass

from retriever.core.protocols import Encoder
from retriever.core.roles import RolePrompts
from retriever.encoders.catalog import named

_BROUGHT = "st:"  # what names of models that people bring begin with


@dataclass(frozen=True, slots=True)
class ModelNotes:
    """Notes on a model that did not come with the package.

    Attributes:
        recognised: what it is sent before texts and why, in a sentence.
        weaknesses: sentences on what is probably wrong, each with what usually mends it.
    """

    recognised: str
    weaknesses: list[str]


def notes_on(encoder: Encoder) -> ModelNotes | None:
    """Return notes on a sentence encoder that somebody brought, which reads a few texts for it; None on any other.

    One behind an endpoint is sent them.

    Raises:
        EncoderError: its vectors are not numbers, or its endpoint cannot be asked.
    """
    name = encoder.spec.name
    known = not name.startswith(_BROUGHT) or name in {entry.spec for entry in named().values()}
    if known and encoder.memory() is None:
        return None
    from retriever.encoders.self_check import weaknesses

    return ModelNotes(f"{name}: {_said(encoder.spec.prompts)}", weaknesses(encoder))


def _said(prompts: RolePrompts) -> str:
    if not prompts:
        return "no prompts are known; texts and queries are read as they are."
    before = [f"queries are read behind {prompts.query!r}"] if prompts.query else []
    before += [f"documents behind {prompts.document!r}" if prompts.document else "documents as they are"]
    followed = "; a search under an instruction is answered from the vectors that are there" * prompts.instructed
    return f"prompts {prompts.origin}: {', '.join(before)}{followed}."
