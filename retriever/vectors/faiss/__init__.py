"""Vector indexes of the FAISS library: how they are built, kept as files, searched, and put on a GPU."""

from importlib import import_module
from typing import Any

faiss: Any = import_module("faiss")
"""The library, typed as `Any`: the stubs it ships leave out or contradict much of what its Python layer does."""
