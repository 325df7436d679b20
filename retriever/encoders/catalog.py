"""Names of encoders: shipped models, the table below, ``METHOD:BACKBONE``, encoders of other packages, or checkpoints.

``default`` is the shipped model, or the checkpoint that the user promoted. A promotion is a pointer in the user's
configuration: the folder's path and its manifest's hash, which stands for every file of the checkpoint.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.core.errors import CheckpointError, EncoderError, UsageError
from retriever.core.fingerprint import file_hash
from retriever.core.paths import config_dir, make_folder, write_whole
from retriever.core.plugins import Plugin, find_plugin, plugins
from retriever.core.registry import nearest, require_extra, resolve
from retriever.encoders.answers.places import ENCODERS, endpoint_name
from retriever.encoders.answers.places import METHOD as CHAT_METHOD
from retriever.encoders.checkpoint_config import read_checkpoint_config
from retriever.encoders.methods import ENDPOINT_ENCODER, METHODS, SENTENCE_METHODS, EncoderOptions, build
from retriever.encoders.model_options import with_absolute_folder
from retriever.encoders.plugins import load_plugin
from retriever.encoders.sources import CONFIG, MANIFEST, MODULES
from retriever.encoders.wheels import WHEELS

if TYPE_CHECKING:
    from retriever.core.protocols import Encoder


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
    "inbedder": CatalogEntry("inbedder:smollm2-135m", "InBedder's encoding methods, chosen by pooling"),
    "plain": CatalogEntry("plain:smollm2-135m", "the bare backbone: last token or mean"),
    "minilm": CatalogEntry("st:all-minilm-l6-v2", "all-MiniLM-L6-v2, the generic peer; ignores what it is asked"),
    "multilingual": CatalogEntry(
        "st:multilingual-e5-small", "multilingual-e5-small in four bits: a base encoder for a hundred languages"
    ),
}
"""Encoders that the package does not ship as trained models."""


def shipped() -> list[str]:
    """Return the names of the trained models that came with the package."""
    return sorted(config.parent.name for config in SHIPPED_FOLDER.glob(f"*/{CONFIG}"))


def named() -> dict[str, CatalogEntry]:
    """Return every name and what it stands for now: the user's default, shipped models, the table, other packages'."""
    entries = {}
    for name in shipped():
        config = json.loads((SHIPPED_FOLDER / name / CONFIG).read_text())
        summary = f"{config['method']} on {config['backbone']['name']}, fine-tuned; shipped with retriever"
        entries[name] = CatalogEntry(f"{SHIPPED}:{name}", summary)
    entries |= CATALOG
    if promotion := read_promotion():
        entries[DEFAULT] = CatalogEntry(str(promotion.folder), "made the default by `retriever models promote`")
    own = _built_in()
    return entries | {
        plugin.name: CatalogEntry(plugin.name, f"by {plugin.origin}")
        for plugin in plugins("encoder")
        if plugin.name not in own
    }


def hidden_plugins() -> list[str]:
    """Return a sentence for each encoder of another package whose name is taken."""
    own = _built_in()
    return [
        f"The encoder {plugin.name!r} of {plugin.origin} is not used: retriever has one of that name."
        for plugin in plugins("encoder")
        if plugin.name in own
    ]


def resolve_name(name: str) -> str:
    """Return the name an index stores: ``METHOD:BACKBONE``, ``pretrained:NAME``, ``http:URL#MODEL``, or a folder.

    The folder is a checkpoint's; folders are absolute.

    An encoder of another package is called ``NAME`` or ``NAME:MODEL``.

    Raises:
        EncoderError: nothing of that name is known, and the nearest name is suggested; or two packages bring it.
        UsageError: it is a language model behind an endpoint.
        CheckpointError: it is ``default``, and the folder that was made the default is gone or changed.
    """
    if name == DEFAULT and (own := promoted_folder()):
        return str(own)
    if name in shipped():
        return f"{SHIPPED}:{name}"
    if entry := CATALOG.get(name):
        return entry.spec
    if endpoint := endpoint_name(name):
        return endpoint
    method, colon, backbone = name.partition(":")
    if colon and backbone and (method in _prefixes()):
        return name if backbone in WHEELS else f"{method}:{with_absolute_folder(backbone)}"
    if colon and method == SHIPPED:
        _shipped_folder(backbone)
        return name
    if colon and method == CHAT_METHOD:
        raise UsageError(
            f"{name} is a language model, which is no encoder: it answers the questions of an index.",
            hint=f"Say --reader {name} with a search or cluster under an instruction.",
        )
    return name if find_encoder(name) else _checkpoint(name)


def _checkpoint(name: str) -> str:
    """Return the absolute folder of a checkpoint.

    Raises:
        EncoderError: it is none, and nothing else has that name.
    """
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
        hint=f"{nearest(name, named())} Otherwise METHOD:BACKBONE or a checkpoint folder; see `retriever models list`.",
    )


def checkpoint_folder(spec: str) -> Path | None:
    """Return the checkpoint folder behind a resolved name, or None where it names a method and a backbone."""
    method, colon, rest = spec.partition(":")
    if colon and method == SHIPPED:
        return _shipped_folder(rest)
    return Path(spec) if Path(spec).is_absolute() else None


def find_encoder(spec: str) -> Plugin | None:
    """Return the encoder of another package that ``NAME`` or ``NAME:MODEL`` names; None for our own and for none.

    Raises:
        EncoderError: several packages bring one of that name.
    """
    return find_plugin("encoder", spec.partition(":")[0]) if of_package(spec) else None


def of_package(spec: str) -> bool:
    """Whether ``NAME`` or ``NAME:MODEL`` can name an encoder of another package alone, installed or not."""
    name = spec.partition(":")[0]
    return name not in _built_in() and Path(name).name == name


def _prefixes() -> list[str]:
    """List the names that can stand before the colon of ``METHOD:MODEL``."""
    return [*METHODS, *SENTENCE_METHODS]


def _built_in() -> set[str]:
    """Return the names that no other package can give to an encoder."""
    return {*shipped(), *CATALOG, *_prefixes(), DEFAULT, SHIPPED, CHAT_METHOD, ENCODERS}


def _shipped_folder(name: str) -> Path:
    folder = SHIPPED_FOLDER / name
    if name not in shipped():
        known = f"It ships {', '.join(shipped())}." if shipped() else "It ships none."
        raise EncoderError(
            f"This version of retriever ships no model {name!r}.",
            hint=f"{known} An index made with another version's model is indexed again under another --index.",
        )
    return folder


def load_encoder(
    name: str = DEFAULT, *, device: str = "auto", dtype: str = "auto", **settings: str | int | None
) -> "Encoder":
    """Load an encoder by any of its names.

    Args:
        name: as `resolve_name` takes it.
        device: where to run.
        dtype: in which number format.
        settings: fields of `EncoderOptions`; None leaves one at its default, or at what a checkpoint says.

    Raises:
        EncoderError: it is unknown, its packages or files are missing, or another package brings it and it does not do.
        UsageError: it is a language model behind an endpoint, which answers questions and encodes nothing.
        CheckpointError: a file differs from its recorded hash.
    """
    options = EncoderOptions(**{field: value for field, value in settings.items() if value is not None})  # type: ignore[arg-type]
    spec = resolve_name(name)
    if spec.startswith(f"{ENCODERS}:"):
        require_extra("chat")
        remote: Encoder = resolve(ENDPOINT_ENCODER)(spec, options)
        return remote
    folder = checkpoint_folder(spec)
    config = None if folder is None else read_checkpoint_config(folder)
    method, _, model = spec.partition(":") if config is None else (config.method, "", config.backbone)
    if method in SENTENCE_METHODS:
        made: Encoder = resolve(SENTENCE_METHODS[method])(spec, config or model, options, device=device, dtype=dtype)
        return made
    if config is None and (plugin := find_encoder(spec)):
        return load_plugin(plugin, spec, options, device=device, dtype=dtype)
    from retriever.encoders.backbone import load_backbone
    from retriever.encoders.checkpoint import load_prompt_checkpoint

    if config is None:
        encoder = build(method, load_backbone(model, device=device, dtype=dtype), options)
    else:
        encoder = load_prompt_checkpoint(config, options, device=device, dtype=dtype)
    if method == "plain" and (encoder.backbone.source.folder / MODULES).exists():
        raise EncoderError(
            f"{model} is a sentence-transformers model, with a pooling and prompts of its own.",
            hint=f"Say st:{model} to have them used.",
        )
    encoder.backbone.pack()
    encoder.name = spec
    return encoder


POINTER = "default.json"
_NEXT = (
    "`retriever models promote FOLDER` names another, `retriever models promote --reset` goes back to the shipped one."
)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promoted checkpoint: its folder's absolute path, and the hex SHA-256 of its manifest at that time."""

    folder: Path
    digest: str


def read_promotion() -> Promotion | None:
    """Read which checkpoint the user promoted, whether its folder is still there or not; None where none was.

    Raises:
        CheckpointError: the pointer cannot be read.
    """
    pointer = config_dir() / POINTER
    try:
        stored = json.loads(pointer.read_text(encoding="utf-8"))
        return Promotion(Path(stored["folder"]), str(stored["digest"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CheckpointError(
            f"{pointer} cannot be read: {error.strerror}.", hint="RETRIEVER_CONFIG names another folder for it."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{pointer} cannot be read ({error}).", hint=_NEXT) from error


def promoted_folder() -> Path | None:
    """Return the folder that ``default`` stands for, or None where the user promoted none.

    Raises:
        CheckpointError: it is gone, or another checkpoint than was promoted.
    """
    promotion = read_promotion()
    if promotion is None:
        return None
    manifest = promotion.folder / MANIFEST
    if not manifest.is_file():
        raise CheckpointError(f"The default encoder {promotion.folder} is gone.", hint=f"Put it back; {_NEXT}")
    if file_hash(manifest) != promotion.digest:
        raise CheckpointError(
            f"The default encoder {promotion.folder} has changed since it was promoted.",
            hint=f"If that is meant, promote it again; {_NEXT}",
        )
    return promotion.folder


def write_promotion(folder: Path) -> None:
    """Make a checkpoint folder the user's default encoder; the pointer is replaced whole or not at all.

    Raises:
        CheckpointError: it cannot be written.
    """
    place = folder.expanduser().resolve()
    stored = {"folder": str(place), "digest": file_hash(place / MANIFEST)}
    pointer = config_dir() / POINTER
    try:
        make_folder(pointer.parent)
        write_whole(pointer, json.dumps(stored, indent=1) + "\n")
    except OSError as error:
        raise CheckpointError(
            f"{pointer} cannot be written: {error.strerror}.", hint="RETRIEVER_CONFIG names another folder for it."
        ) from error


def remove_promotion() -> None:
    """Go back to the shipped default encoder."""
    (config_dir() / POINTER).unlink(missing_ok=True)
