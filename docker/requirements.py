"""Print what an image needs, one requirement a line: ``python docker/requirements.py cpu|gpu``.

It is what pyproject.toml names for a server that asks language models. An image without a GPU has FAISS for processors:
the other one brings CUDA libraries of some gigabytes with it.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("serve", "chat")


def requirements(variant: str) -> list[str]:
    """Return the requirements of a variant, cpu or gpu."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in EXTRAS for line in _extra(project["optional-dependencies"], extra)),
    ]
    plain = [line.partition(";")[0].strip() for line in lines]
    left_out = "faiss-gpu" if variant == "cpu" else "faiss-cpu"
    return sorted({line for line in plain if not line.startswith(left_out)})


def _extra(extras: dict[str, list[str]], name: str) -> list[str]:
    found: list[str] = []
    for line in extras[name]:
        inner = re.fullmatch(r"instruction-retriever\[([\w,-]+)\]", line)
        found += [one for other in inner[1].split(",") for one in _extra(extras, other)] if inner else [line]
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("cpu", "gpu"):
        sys.exit("Say which variant: cpu or gpu.")
    sys.stdout.write("\n".join(requirements(sys.argv[1])) + "\n")
