"""The manifest of a corpus in shards: which folders they are, and the statistics that order hits of all of them.

It is one JSON file beside the shards' folders, replaced whole. The shards' databases stay the truth: whatever the
manifest lacks is asked of them, and it is read anew when a router starts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import IndexDamagedError, IndexNotFoundError
from retriever.core.paths import write_whole
from retriever.store.similarities import Similarities
from retriever.store.views import ViewKey

NAME = "shards.json"
KIND = "retriever shards"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One shard.

    Attributes:
        folder: its name beside the manifest.
        first: the first content id it was given.
        last: the last one.
        documents: how many it held when the manifest was written.
        texts: different ones, those without a document included; of BM25.
        tokens: in these texts together; of BM25.
    """

    folder: str
    first: int
    last: int
    documents: int
    texts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ViewStatistics:
    """What orders the hits of a view, of all shards together.

    Attributes:
        key: of the view.
        similarities: how alike its vectors are at random; None where they are too few.
        typical: what is subtracted from queries (dim,); see `index.search.centering`.
    """

    key: ViewKey
    similarities: Similarities | None
    typical: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A corpus in shards.

    Attributes:
        generation: one more with each time the corpus is split anew in this folder.
        created: when, ISO 8601 in UTC.
        parts: the shards.
        views: their statistics.
    """

    generation: int
    created: str
    parts: Sequence[Part]
    views: Sequence[ViewStatistics] = field(default_factory=tuple)

    def of(self, key: ViewKey) -> ViewStatistics | None:
        """Return the statistics of a view, or None."""
        return next((one for one in self.views if one.key == key), None)

    def with_similarities(self, key: ViewKey, found: Similarities) -> "Manifest":
        """Return the manifest with another distribution of a view."""
        known = self.of(key)
        changed = ViewStatistics(key, found, np.zeros(key.dim, np.float32) if known is None else known.typical)
        return replace(self, views=(*(one for one in self.views if one.key != key), changed))

    def write(self, folder: Path) -> None:
        """Write the manifest of a folder of shards, whole or not at all."""
        document = {
            "kind": KIND,
            "format": _FORMAT,
            "generation": self.generation,
            "created": self.created,
            "documents": sum(part.documents for part in self.parts),
            "shards": [asdict(part) for part in self.parts],
            "views": [_view_as_json(one) for one in self.views],
        }
        write_whole(folder / NAME, json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a folder of shards.

        Raises:
            IndexNotFoundError: there is none.
            IndexDamagedError: it is not what was written.
        """
        path = folder / NAME
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise IndexNotFoundError(
                f"There are no shards at {folder}.", hint="Make them with `retriever shard INDEX --parts N -o DIR`."
            ) from None
        except (OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise _damaged(path, f"it is no manifest of {KIND!r}")
        if document.get("format") != _FORMAT:
            raise IndexDamagedError(
                f"{path} was written by a newer version of retriever.",
                hint="Update retriever, or split the index again.",
            )
        try:
            parts = tuple(Part(**one) for one in document["shards"])
            views = tuple(_view_from_json(one) for one in document["views"])
            manifest = cls(int(document["generation"]), str(document["created"]), parts, views)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"{error!r} in it") from error
        if not parts or any("/" in part.folder or part.folder in ("", ".", "..") for part in parts):
            raise _damaged(path, "it names no folders beside it")
        return manifest

    def folders(self, folder: Path) -> list[Path]:
        """Return the shards' folders, in order."""
        return [folder / part.folder for part in self.parts]


def is_sharded(path: Path) -> bool:
    """Whether a folder holds a corpus in shards; it may be damaged."""
    return (path / NAME).is_file()


def _damaged(path: Path, why: str) -> IndexDamagedError:
    return IndexDamagedError(
        f"{path} is damaged: {why}.", hint="The shards are whole indexes; split the index again to have a manifest."
    )


def _view_as_json(one: ViewStatistics) -> dict[str, Any]:
    found = one.similarities
    return {
        **asdict(one.key),
        "vectors": None if found is None else found.vectors,
        "quantiles": None if found is None else found.quantiles.astype(float).tolist(),
        "typical": one.typical.astype(float).tolist() if one.typical.any() else None,
    }


def _view_from_json(document: Mapping[str, Any]) -> ViewStatistics:
    rest = dict(document)
    vectors, quantiles, typical = rest.pop("vectors"), rest.pop("quantiles"), rest.pop("typical")
    key = ViewKey(**rest)
    found = None if vectors is None else Similarities(int(vectors), np.array(quantiles, dtype=np.float32))
    shift = np.zeros(key.dim, np.float32) if typical is None else np.array(typical, dtype=np.float32)
    if shift.shape != (key.dim,):
        raise ValueError("a vector of another length than its view")
    return ViewStatistics(key, found, shift)
