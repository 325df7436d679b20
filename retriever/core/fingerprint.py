"""Hashes that identify contents, files and encoders."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retriever.core.types import JSON


def content_hash(text: str) -> bytes:
    """Return the 32-byte SHA-256 of a text; equal texts share their vectors."""
    return hashlib.sha256(text.encode("utf-8")).digest()


def file_hash(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_hash(value: "Mapping[str, JSON]") -> str:
    """Return the hex SHA-256 of a JSON object, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
