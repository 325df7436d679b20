"""The user's models: one of them as the default, and any of them as a folder for other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from retriever.core.errors import EncoderError, UsageError
from retriever.core.paths import new_folder, writing
from retriever.core.registry import resolve
from retriever.encoders import catalog
from retriever.encoders.export import Written
from retriever.encoders.sources import CONFIG

Format = Literal["sentence-transformers"]


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
    catalog.load_encoder(str(place), device="cpu")
    catalog.write_promotion(place)
    return place


def reset() -> None:
    """Go back to the shipped default encoder."""
    catalog.remove_promotion()


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
    loaded = catalog.load_encoder(name, device=device, dtype="float32")
    if not loaded.exporter:
        raise EncoderError(f"{loaded.spec.name} is a sentence-transformers model already.")
    with writing(folder, "OUT"), new_folder(folder) as draft:
        written: Written = resolve(loaded.exporter)(loaded, draft, folder.name)
        card, own = written.card, catalog.checkpoint_folder(loaded.spec.name)
        if own is not None:
            card += f"\n# The checkpoint's own card\n\n{(own / 'README.md').read_text(encoding='utf-8')}"
        (draft / "README.md").write_text(card, encoding="utf-8")
    return Export(loaded.spec.name, folder, written.loader)
