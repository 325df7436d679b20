"""A checkpoint's `retriever.json`: method, backbone and options. Nothing here loads a model library."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import cast

from retriever.core.errors import CheckpointError
from retriever.core.registry import nearest
from retriever.encoders.methods import METHODS, SENTENCE_METHODS, EncoderOptions
from retriever.encoders.sources import CONFIG, ModelSource, check_manifest

FORMAT = 1
RESTORE = "Restore the folder from where it came; a changed model is not used."


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """The contents of a checkpoint's `retriever.json`; the digest is that of the backbone it was trained on."""

    folder: Path
    method: str
    backbone: str
    digest: str
    options: EncoderOptions

    def chosen(self, options: EncoderOptions) -> EncoderOptions:
        """Return the checkpoint's options, with those of others that are not at their defaults in their place."""
        default = asdict(EncoderOptions())
        given = {name: value for name, value in asdict(options).items() if value != default[name]}
        return replace(self.options, **given)

    def require(self, source: ModelSource) -> None:
        """Raise CheckpointError where a source is another version of the backbone the checkpoint was trained on."""
        if source.digest != self.digest:
            raise CheckpointError(
                f"{self.folder} was trained on another version of {self.backbone}.",
                hint=f"Install the backbone with digest {self.digest[:12]}.",
            )


def read_checkpoint_config(folder: Path) -> CheckpointConfig:
    """Check a checkpoint's manifest and return what its `retriever.json` says.

    Raises:
        CheckpointError: a file changed or is missing, or the description is malformed or of a newer version.
    """
    check_manifest(folder, hint=RESTORE)
    try:
        stored = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if stored["format"] > FORMAT:
            raise CheckpointError(
                f"{folder} has checkpoint format {stored['format']}.", hint="Upgrade retriever to read it."
            )
        options = EncoderOptions(**stored["options"])
        for field in fields(EncoderOptions):
            value = getattr(options, field.name)
            if isinstance(value, bool) or not isinstance(value, cast("type", field.type)):
                raise ValueError(f"{field.name} is {value!r}")
        named = {"method": stored["method"], **stored["backbone"]}
        if not all(isinstance(named[key], str) for key in ("method", "name", "digest")):
            raise ValueError("method and backbone are no names")
        known = [*METHODS, *SENTENCE_METHODS]
        if named["method"] not in known:
            raise ValueError(nearest(named["method"], known))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{folder / CONFIG} is malformed: {error}.", hint=RESTORE) from error
    return CheckpointConfig(folder, named["method"], named["name"], named["digest"], options)


def write_checkpoint_config(folder: Path, method: str, source: ModelSource, options: EncoderOptions) -> None:
    """Write a checkpoint's `retriever.json`."""
    config = {
        "format": FORMAT,
        "method": method,
        "backbone": {"name": source.name, "digest": source.digest},
        "options": asdict(options),
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
