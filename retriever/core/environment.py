"""A run's environment: the versions that shape its numbers, the machine its timings are of, and Ray's settings."""

import os
import platform
import secrets
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from retriever.core.registry import DISTRIBUTION
from retriever.core.types import JSON

OFFLINE = ("RETRIEVER_OFFLINE", "HF_HUB_OFFLINE")
"""Environment variables of which either, set to 1, forbids to download models."""

_PACKAGES = ("numpy", "torch", "transformers", "peft", "safetensors", "faiss")


def versions() -> dict[str, str]:
    """Name the versions of Python, this package and what it has imported by now, and the GPU where one is in use."""
    used = {name: str(getattr(sys.modules[name], "__version__", "")) for name in _PACKAGES if name in sys.modules}
    gpu = _gpu()
    about = {"python": platform.python_version(), "machine": platform.machine(), "retriever": own_version()}
    return {**about, **({} if gpu is None else {"gpu": gpu}), **used}


def own_version() -> str:
    """Return this package's version; ``not installed`` where it runs from a copy of its sources."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


def is_offline() -> bool:
    """Whether the environment forbids to download models."""
    return any(os.environ.get(name, "").strip().lower() in ("1", "on", "yes", "true") for name in OFFLINE)


def machine() -> dict[str, JSON]:
    """Describe what timings depend on: processor, cores, and the accelerator where one is in use."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), processor)
    return {"processor": processor, "cores": os.cpu_count(), "accelerator": _gpu()}


def guard_local_ray() -> None:
    """Have a Ray that this process starts listen on loopback alone, behind a token that its children inherit.

    A process has one token: Ray keeps the first that it saw.
    """
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on loopback then, on any system


def _gpu() -> str | None:
    """Name the GPU that torch uses; None where there is none, or torch is not imported."""
    torch: Any = sys.modules.get("torch")
    return str(torch.cuda.get_device_name(0)) if torch is not None and torch.cuda.is_available() else None
