"""Names of encoders: shipped models, those of the table below, ``METHOD:BACKBONE``, or a checkpoint folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.core.errors import EncoderError
from retriever.core.registry import nearest, resolve
from retriever.encoders.methods import METHODS, build
from retriever.encoders.options import EncoderOptions
from retriever.encoders.promoted import promoted_folder, read_promotion
from retriever.encoders.sources import CONFIG

if TYPE_CHECKING:
    from retriever.core.encoder import Encoder

SENTENCE_METHOD = "st"
WHOLE_MODELS = {SENTENCE_METHOD: "retriever.encoders.sentence_encoder:SentenceEncoder"}
"""Methods that take a model as it is, not a backbone: each class has a ``load`` as `SentenceEncoder.load` is."""

DEFAULT = "default"
SHIPPED = "pretrained"
SHIPPED_FOLDER = Path(__file__).parents[1] / "pretrained"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A named encoder.

    Attributes:
        spec: the resolved name an index stores: ``METHOD:BACKBONE``, ``pretrained:NAME`` or a folder.
        summary: one line for `retriever models list`.
    """

    spec: str
    summary: str


CATALOG = {
    "default": CatalogEntry("inbedder:smollm2-135m", "InBedder 1st-gen on SmolLM2-135M-Instruct; not fine-tuned"),
    "inbedder": CatalogEntry("inbedder:smollm2-135m", "InBedder's encoding methods, chosen by pooling"),
    "instemb": CatalogEntry("instemb:smollm2-135m", "InstEmb with untrained look-ahead tokens"),
    "gircse": CatalogEntry("gircse:smollm2-135m", "GIRCSE soft tokens; not fine-tuned"),
    "plain": CatalogEntry("plain:smollm2-135m", "the bare backbone: last token or mean"),
    "minilm": CatalogEntry("st:all-minilm-l6-v2", "all-MiniLM-L6-v2, the generic peer; ignores what it is asked"),
}


def shipped() -> list[str]:
    """Return the names of the trained models that came with the package."""
    return sorted(config.parent.name for config in SHIPPED_FOLDER.glob(f"*/{CONFIG}"))


def named() -> dict[str, CatalogEntry]:
    """Return every name and what it stands for now: the user's default, shipped models, the table's rest."""
    entries = dict(CATALOG)
    for name in shipped():
        config = json.loads((SHIPPED_FOLDER / name / CONFIG).read_text())
        summary = f"{config['method']} on {config['backbone']['name']}, fine-tuned; shipped with retriever"
        entries[name] = CatalogEntry(f"{SHIPPED}:{name}", summary)
    if promotion := read_promotion():
        entries[DEFAULT] = CatalogEntry(str(promotion.folder), "made the default by `retriever models promote`")
    return entries


def resolve_name(name: str) -> str:
    """Return the name an index stores: ``METHOD:BACKBONE``, ``pretrained:NAME``, or a checkpoint's absolute path.

    Raises:
        EncoderError: nothing of that name is known; the nearest name is suggested.
        CheckpointError: it is ``default``, and the folder that was made the default is gone or changed.
    """
    if name == DEFAULT and (own := promoted_folder()):
        return str(own)
    if name in shipped():
        return f"{SHIPPED}:{name}"
    if entry := CATALOG.get(name):
        return entry.spec
    method, colon, backbone = name.partition(":")
    if colon and backbone and (method in _prefixes()):
        return name
    if colon and method == SHIPPED:
        _shipped_folder(backbone)
        return name
    folder = Path(name).expanduser()
    if (folder / CONFIG).is_file():
        return str(folder.resolve())
    if folder.is_dir():
        raise EncoderError(
            f"{folder} is not a retriever checkpoint.",
            hint=f"For a bare model say METHOD:{name}, with one of {', '.join(_prefixes())}.",
        )
    raise EncoderError(
        f"Unknown encoder {name!r}.",
        hint=f"{nearest(name, CATALOG)} Otherwise METHOD:BACKBONE or a checkpoint folder; see `retriever models list`.",
    )


def checkpoint_folder(spec: str) -> Path | None:
    """Return the checkpoint folder behind a resolved name, or None where it names a method and a backbone."""
    method, colon, rest = spec.partition(":")
    if colon and method in _prefixes():
        return None
    return _shipped_folder(rest) if colon and method == SHIPPED else Path(spec)


def _prefixes() -> list[str]:
    """List the names that can stand before the colon of ``METHOD:MODEL``."""
    return [*METHODS, *WHOLE_MODELS]


def _shipped_folder(name: str) -> Path:
    folder = SHIPPED_FOLDER / name
    if name not in shipped():
        known = f"It ships {', '.join(shipped())}." if shipped() else "It ships none."
        raise EncoderError(
            f"This version of retriever ships no model {name!r}.",
            hint=f"{known} An index made with another version's model is indexed again under another --index.",
        )
    return folder


def require_sentence_model(name: str) -> None:
    """Refuse a folder that holds a language model, which would be pooled without ever having been taught to be.

    Raises:
        EncoderError: it is one.
    """
    folder = Path(name).expanduser()
    config = folder / "config.json"
    if not config.is_file() or (folder / "modules.json").is_file():
        return
    try:
        kinds = json.loads(config.read_text(encoding="utf-8")).get("architectures") or []
    except (OSError, ValueError, AttributeError) as error:
        raise EncoderError(f"{config} cannot be read: {error}.", hint="Name a sentence-transformers model.") from error
    if any(str(kind).endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds):
        raise EncoderError(
            f"{folder} holds a {kinds[0]}, a language model, and no sentence-transformers model.",
            hint=f"As the question reader it is --encoder METHOD:{name}.",
        )


def load_encoder(
    name: str = DEFAULT, *, device: str = "auto", dtype: str = "auto", **options: str | int | None
) -> "Encoder":
    """Load an encoder by any of its names.

    Args:
        name: as `resolve_name` takes it.
        device: where to run.
        dtype: in which number format.
        options: fields of `EncoderOptions`; None leaves one at its default, or at what a checkpoint says.

    Raises:
        EncoderError: it is unknown, or its packages or files are missing.
        CheckpointError: a file differs from its recorded hash.
    """
    chosen = {field: value for field, value in options.items() if value is not None}
    return load(name, EncoderOptions(**chosen), device=device, dtype=dtype)  # type: ignore[arg-type]


def load(name: str, options: EncoderOptions, *, device: str = "auto", dtype: str = "auto") -> "Encoder":
    """Load an encoder by any of its names.

    Args:
        name: as `resolve_name` takes it.
        options: pooling, steps, look-ahead length, template; they override a checkpoint's own.
        device: where to run.
        dtype: in which number format.

    Raises:
        EncoderError: it is unknown, or its packages or files are missing.
        CheckpointError: a file differs from its recorded hash.
    """
    spec = resolve_name(name)
    method, _, model = spec.partition(":")
    folder = checkpoint_folder(spec)
    if folder is None and method in WHOLE_MODELS:
        made: Encoder = resolve(WHOLE_MODELS[method]).load(spec, model, options, device=device, dtype=dtype)
        return made
    from retriever.encoders.backbone import load_backbone
    from retriever.encoders.checkpoint import load_checkpoint

    if folder is None:
        encoder = build(method, load_backbone(model, device=device, dtype=dtype), options)
    else:
        encoder = load_checkpoint(folder, options, device=device, dtype=dtype)
    encoder.backbone.pack()
    encoder.name = spec
    return encoder
