"""The packages that training and scoring import, and which of them a machine lacks."""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

NEEDED: Mapping[str, str] = {
    "torch": "torch>=2.8",
    "transformers": "transformers>=5.20",
    "peft": "peft>=0.20",
    "tokenizers": "tokenizers>=0.22",
    "safetensors": "safetensors>=0.6",
    "numpy": "numpy>=2.0",
    "scipy": "scipy>=1.14",
    "sklearn": "scikit-learn>=1.6",
    "matplotlib": "matplotlib>=3.9",
    "huggingface_hub": "huggingface-hub>=1.0",
    "filelock": "filelock>=3.16",
    "typer": "typer>=0.29",
    "tqdm": "tqdm>=4.67",
    "gguf": "gguf>=0.17",
    "pydantic": "pydantic>=2.12",
    "pydantic_core": "pydantic-core",
    "annotated_types": "annotated-types",
    "typing_inspection": "typing-inspection",
    "ir_measures": "ir-measures>=0.4",
    "pytrec_eval": "pytrec-eval-terrier",
}
"""What the stages import, by import name, and what pip calls it. FAISS and SQLite's helpers are not among it."""


def missing() -> dict[str, ImportError]:
    """Return what pip calls each package that cannot be imported, with the reason."""
    found = {}
    for module, package in NEEDED.items():
        try:
            import_module(module)
        except ImportError as error:
            found[package] = error
    return found


def advice(lacking: Mapping[str, ImportError]) -> Iterator[str]:
    """Yield lines that say what is missing and how to bring it, and which packages are older than asked for."""
    for package, error in lacking.items():
        yield f"missing: {package} ({error})"
    if lacking:
        wanted = " ".join(f"'{one}'" for one in lacking)
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        yield "Fetch these where there is a network, and give the folder to `pack --wheels`:"
        yield f"  python -m pip download --no-deps --only-binary=:all: --python-version {python} -d WHEELS {wanted}"
    yield from filter(None, (older(package) for package in NEEDED.values() if package not in lacking))


def older(package: str) -> str:
    """Return a note where a package is there in a version below the one asked for; empty for none."""
    name, asked, least = package.partition(">=")
    try:
        found = version(name)
    except PackageNotFoundError:  # importable, and that is enough
        return ""
    if not asked or numbers(found) >= numbers(least):
        return ""
    return f"note: {name} is {found}; the package asks for {least}"


def numbers(text: str) -> list[int]:
    """Return the numbers that a version begins with."""
    found = []
    for one in text.split("+")[0].split("."):
        if not one.isdigit():
            break
        found.append(int(one))
    return found
