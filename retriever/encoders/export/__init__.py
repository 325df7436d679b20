"""Encoders as folders that run without this package; every export is compared with its encoder on a few texts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import EncoderError
from retriever.core.protocols import Encoder


@dataclass(frozen=True, slots=True)
class Written:
    """A folder that was written for other programs.

    Attributes:
        loader: what loads it: ``sentence-transformers``, or a file of the folder.
        card: text for its README.md.
    """

    loader: str
    card: str


def card_facts(encoder: Encoder, name: str) -> dict[str, object]:
    """Collect the facts that every card states of an encoder, which goes into a folder of the given name."""
    return {
        "name": name,
        "spec": f"`{encoder.spec.name}`",
        "instruction": f"*{encoder.spec.default_instruction}*",
        "text": encoder.spec.max_text_tokens,
    }


TOLERANCE = 1e-3
PROBES = {
    "": ["The kettle broke after two days.", "one word after the other " * 300, ""],
    "What broke?": ["  spaces around, a tab\tand lines\n\nin it \n"],
    " How does the customer feel? ": ["Übergröße, naïve, 价格 99,95 € <|im_end|> </s> ### Response:", "no"],
}
"""Texts by instruction, short beside long; an empty instruction is the default one."""


def check_probes(
    encoder: Encoder, exported: Callable[[list[str], str], NDArray[np.float32]], *, plain: bool = True
) -> None:
    """Compare an encoder with what was made of it, also under no instruction (``plain``).

    The encoder is in float32; ``exported`` gives the vectors (n, dim) of texts under an instruction.

    Raises:
        EncoderError: a component differs by more than 1e-3.
    """
    for instruction, texts in PROBES.items():
        if not (instruction or plain):
            continue
        # as queries, and singly: many texts may be read in bfloat16
        ours = np.concatenate([encoder.encode_queries([text], instruction=instruction) for text in texts])
        apart = np.abs(ours - exported(texts, instruction)).max(axis=1)
        if not apart.max() <= TOLERANCE:
            worst = int(apart.argmax())
            raise EncoderError(
                f"{encoder.spec.label} cannot be exported: its vector of {texts[worst][:40]!r} would be "
                f"{apart[worst]:.2g} off.",
                hint="Its model or tokenizer does what the exported form cannot repeat; use retriever.load_encoder.",
            )
