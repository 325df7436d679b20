"""Which device and number format a model runs on. torch is imported by what gives its values, not by this module."""

import logging
import os
from functools import cache
from typing import TYPE_CHECKING

from retriever.core.errors import UsageError

if TYPE_CHECKING:
    import torch

DTYPES = ("bfloat16", "float32", "float16")
_LIMITS = "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"
_WITH_BFLOAT16 = "BF16", "FP16", "AMX", "AVX10", "DEFAULT", "ALL"  # parts of the names of what oneDNN may use

logger = logging.getLogger(__name__)


def pick_device(name: str = "auto") -> "torch.device":
    """Return the torch device: ``auto`` takes CUDA where there is one, else the CPU.

    Raises:
        UsageError: it is not there, or no device is called so.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("No CUDA device is available.", hint="Use --device cpu or auto.")
    try:
        return torch.device(name)
    except RuntimeError:
        raise UsageError(f"Unknown device {name!r}.", hint="Known: auto, cpu, cuda.") from None


def check_dtype(name: str) -> None:
    """Refuse a number format that is not known.

    Raises:
        UsageError: it is neither ``auto`` nor of `DTYPES`.
    """
    if name not in ("auto", *DTYPES):
        raise UsageError(f"Unknown dtype {name!r}.", hint=f"Known: auto, {', '.join(DTYPES)}.")


def pick_dtype(name: str, device: "torch.device") -> "torch.dtype":
    """Return the number format: ``auto`` takes bfloat16 where the hardware multiplies it, else float32, and says so.

    Raises:
        UsageError: it is not known.
    """
    import torch

    check_dtype(name)
    known = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
    if name != "auto":
        return known[name]
    if emulates_bfloat16(device):
        _say_float32()
        return known["float32"]
    return known["bfloat16"]


@cache  # once a process
def _say_float32() -> None:
    logger.warning("This device does not multiply bfloat16: models compute in float32, which takes longer.")


def emulates_bfloat16(device: "torch.device") -> bool:
    """Tell whether a device multiplies bfloat16 by other instructions only, which takes many times as long."""
    import torch

    if device.type == "cuda":
        return not torch.cuda.is_bf16_supported(including_emulation=False)
    limit = next(filter(None, map(os.environ.get, _LIMITS)), "ALL").upper()
    if not any(part in limit for part in _WITH_BFLOAT16):
        return True
    capabilities = torch.cpu.get_capabilities()
    return not any(capabilities.get(flag, False) for flag in ("avx512_bf16", "amx_bf16", "bf16"))
