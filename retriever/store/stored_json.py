"""JSON in the tables: read so that what is no JSON, or nests without end, counts as damage."""

import json
from collections.abc import Iterable
from typing import Any

from retriever.core.errors import IndexDamagedError
from retriever.store.checksums import REPAIR


def stored_json(text: str) -> Any:  # noqa: ANN401 - whatever was stored
    """Return the value of a JSON text.

    Raises:
        IndexDamagedError: it is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IndexDamagedError(f"The index holds JSON that cannot be read: {error}.", hint=REPAIR) from error


def stored_json_list(texts: Iterable[str]) -> list[Any]:
    """Return the values of many JSON texts, parsed in one go; errors as `stored_json`."""
    values: list[Any] = stored_json(f"[{','.join(texts)}]")
    return values
