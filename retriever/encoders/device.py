"""Which device and number format a model runs on."""

import torch

from retriever.core.errors import UsageError

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}


def pick_device(name: str = "auto") -> torch.device:
    """Return the torch device: ``auto`` takes CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("No CUDA device is available.", hint="Use --device cpu or auto.")
    try:
        return torch.device(name)
    except RuntimeError:
        raise UsageError(f"Unknown device {name!r}.", hint="Known: auto, cpu, cuda.") from None


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the number format: ``auto`` takes bfloat16 where the hardware multiplies it natively, else float32."""
    if name == "auto":
        return torch.bfloat16 if _has_bfloat16(device) else torch.float32
    try:
        return DTYPES[name]
    except KeyError:
        raise UsageError(f"Unknown dtype {name!r}.", hint=f"Known: auto, {', '.join(DTYPES)}.") from None


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(flag, False) for flag in ("avx512_bf16", "amx_bf16", "bf16"))
