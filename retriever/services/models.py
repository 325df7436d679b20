"""The user's models: one of them as the default encoder, and any of them as a folder for other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from retriever.core.errors import EncoderError, UsageError
from retriever.core.paths import new_folder, writing
from retriever.encoders import catalog
from retriever.encoders import promoted as pointer
from retriever.encoders.base import EncoderOptions, PromptEncoder
from retriever.encoders.checkpoint import CONFIG, load_checkpoint

Format = Literal["sentence-transformers"]

_STOCK_CARD = """# {name}, for sentence-transformers

Made from {spec} by `retriever models export`. Merged float32 weights and stock modules: sentence-transformers 6.2 or
newer loads this folder without remote code.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH/OF/THIS/FOLDER")
vectors = model.encode(["The kettle broke."], prompt="What kind of product is this about?")
```

The prompt is the instruction; the chat template puts it behind the text. Without one the model reads every text under
its default instruction: {instruction}

The vectors are those of `retriever.load_encoder` in float32, with {pooling} pooling{look_ahead}; this was checked to
1e-3 when the folder was made.

## Limits

- Text and instruction together have {most} tokens. What is longer loses the end of the text, never the instruction.
  Texts of up to {text} tokens are whole under the default instruction; a longer instruction leaves less room.
- Set no `max_seq_length` below the length of an instruction.
- A `prompt` is an instruction, not a prefix. `{mark}` in a text is read as `{plain}`.
- No words: the model's answers in words need retriever.
"""

_GIRCSE_CARD = """# {name}, with a loader

Made from {spec} by `retriever models export`. GIRCSE feeds the model its own expectations step by step, which no stock
module of sentence-transformers does; `loader.py` in this folder does it with torch and transformers alone.

```python
from loader import Gircse

encoder = Gircse("PATH/OF/THIS/FOLDER")
vectors = encoder.encode(["The kettle broke."], instruction="What kind of product is this about?", steps={steps})
```

Without an instruction a text is read under the default one: {instruction}

The vectors are those of `retriever.load_encoder` in float32; this was checked to 1e-3 when the folder was made. Texts
are cut after {text} tokens. The words of the soft tokens need retriever.
"""


@dataclass(frozen=True, slots=True)
class Export:
    """A model as a folder for other programs.

    Attributes:
        name: the encoder's resolved name.
        folder: what was written.
        loader: ``sentence-transformers``, or ``loader.py`` where the folder brings its own.
    """

    name: str
    folder: Path
    loader: str


def promote(folder: Path) -> Path:
    """Make a checkpoint the user's default encoder, and return its absolute path.

    It is loaded once, so that what does not load is not made the default. Indexes that exist keep their encoder.

    Raises:
        EncoderError: the folder is no checkpoint.
        CheckpointError: a file of it changed, or its backbone is another.
    """
    place = folder.expanduser().resolve()
    if not (place / CONFIG).is_file():
        raise EncoderError(
            f"{folder} is not a retriever checkpoint.", hint="Name a folder that `retriever finetune` wrote."
        )
    load_checkpoint(place, EncoderOptions(), device="cpu")
    pointer.write_promotion(place)
    return place


def reset() -> None:
    """Go back to the shipped default encoder."""
    pointer.remove_promotion()


def promoted() -> Path | None:
    """Return the folder that was made the default encoder, there or not; None where none was.

    Raises:
        CheckpointError: the pointer cannot be read.
    """
    promotion = pointer.read_promotion()
    return None if promotion is None else promotion.folder


def export(name: str, folder: Path, *, to: str = "sentence-transformers", device: str = "cpu") -> Export:
    """Write an encoder as a folder that works without this package; it appears whole or not at all.

    Args:
        name: any name of an encoder, or a checkpoint folder.
        folder: must not exist yet.
        to: ``sentence-transformers``. GIRCSE, which no stock module computes, brings a loader of its own.
        device: where the weights are merged and the result is checked.

    Raises:
        UsageError: the format is unknown, or the folder exists.
        EncoderError: the encoder cannot be exported, or the exported one gives other vectors.
        OutputError: the folder cannot be written.
    """
    if to not in get_args(Format):
        raise UsageError(f"There is no export to {to!r}.", hint=f"Known: {', '.join(get_args(Format))}.")
    if folder.exists():
        raise UsageError(f"{folder} exists already.", hint="Choose another folder.")
    loaded = catalog.load(name, EncoderOptions(), device=device, dtype="float32")
    if not isinstance(loaded, PromptEncoder):
        raise EncoderError(f"{loaded.spec} is a sentence-transformers model already.")
    with writing(folder, "OUT"), new_folder(folder) as draft:
        loader = _write(loaded, draft, folder.name)
    return Export(loaded.spec, folder, loader)


def _write(encoder: PromptEncoder, draft: Path, name: str) -> str:
    """Write the folder's files, and return what loads them."""
    facts = {
        "name": name,
        "spec": f"`{encoder.spec}`",
        "instruction": f"*{encoder.options.default_instruction}*",
        "text": encoder.max_text_tokens,
    }
    if encoder.method == "gircse":
        from retriever.encoders.export.gircse_folder import LOADER, export_gircse
        from retriever.encoders.gircse import GircseEncoder

        export_gircse(cast("GircseEncoder", encoder), draft)
        card, loader = _GIRCSE_CARD.format(**facts, steps=encoder.steps), LOADER
    else:
        from retriever.encoders.export.prompt_tokens import MARK, PLAIN_MARK
        from retriever.encoders.export.stock_modules import export_sentence_transformer

        most = export_sentence_transformer(encoder, draft)
        look_ahead = f" over {encoder.look_ahead} look-ahead tokens" if encoder.look_ahead else ""
        shown = {"pooling": encoder.pooling, "look_ahead": look_ahead, "mark": MARK, "plain": PLAIN_MARK}
        card, loader = _STOCK_CARD.format(**facts, **shown, most=most), "sentence-transformers"
    own = catalog.checkpoint_folder(encoder.spec)
    if own is not None:
        card += f"\n# The checkpoint's own card\n\n{(own / 'README.md').read_text(encoding='utf-8')}"
    (draft / "README.md").write_text(card, encoding="utf-8")
    return loader
