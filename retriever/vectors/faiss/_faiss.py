"""FAISS, typed as `Any`: the stubs it ships leave out or contradict much of what its Python layer does."""

from importlib import import_module
from typing import Any

faiss: Any = import_module("faiss")
