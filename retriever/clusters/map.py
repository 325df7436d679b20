"""A clustering as a map: one HTML file without a network.

What reviews say is hostile input. The page holds it as JSON with every character escaped that could end the element;
its script shows it as text alone, and its policy lets nothing run or load but that one script.
"""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.projection import project
from retriever.clusters.clustering import Clustering
from retriever.clusters.pages import page
from retriever.clusters.references import ordinal
from retriever.core.paths import write_output

# Tol's "muted" qualitative scheme and its greys: told apart with every common kind of colour blindness.
COLOURS = ("#332288", "#cc6677", "#117733", "#ddaa33", "#88ccee", "#aa4499", "#44aa99", "#999933", "#882255", "#777788")
_LONGEST = 1000  # characters of a text
_FIELDS = 8


def map_places(found: Clustering) -> NDArray[np.float32]:
    """Return (n, 2) where every document stands, between -1 and 1."""
    return project(found.material.vectors)


def write_map(path: Path, found: Clustering, places: NDArray[np.float32]) -> None:
    """Write a clustering as a page of its own, its documents at ``places`` (n, 2) as `map_places` gives them.

    Raises:
        OutputError: the file cannot be written.
    """
    script, title = map_asset("scatter.js") + map_asset("map.js"), found.request.instruction or "Clusters"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = {"title": title, "caution": found.caution, **_content(found, places)}
    style = map_asset("scatter.css")
    written = page("map.html", title=title, digest=digest, style=style, script=script, data=data)
    write_output(path, written, "--html")


def map_asset(name: str) -> str:
    """Return the text of a file that maps are made of; scatter.js and scatter.css draw one into any element."""
    return files("retriever.clusters").joinpath(name).read_text(encoding="utf-8")


def _content(clustering: Clustering, places: NDArray[np.float32]) -> dict[str, Any]:
    labels = clustering.labels
    clusters = [
        _part(cluster.number, f"{ordinal(cluster.number)} {cluster.label}", places[labels == cluster.number])
        for cluster in clustering.clusters
    ]
    material = clustering.material
    points = [
        {
            "x": _short(x),
            "y": _short(y),
            "cluster": label,
            "id": document.id,
            "text": f"{document.text[:_LONGEST]}…" if len(document.text) > _LONGEST else document.text,
            "words": list(words),
            "fields": {name: str(value) for name, value in list(document.metadata.items())[:_FIELDS]},
            "left_out": max(0, len(document.metadata) - _FIELDS),
        }
        for document, words, label, (x, y) in zip(
            material.documents, material.answers, labels.tolist(), places.tolist(), strict=True
        )
    ]
    return {"clusters": clusters, "points": points}


def _part(number: int, label: str, places: NDArray[np.float32]) -> dict[str, Any]:
    """Build the page's entry for a cluster from the places (n, 2) of its documents."""
    colour = COLOURS[number % len(COLOURS)]
    return {"label": label, "size": len(places), "colour": colour, **middle_of(places)}


def middle_of(places: NDArray[np.float32]) -> dict[str, float | None]:
    """Return the x and y where a cluster's name stands, given the places (n, 2) of its documents; None without any."""
    x, y = map(_short, np.median(places, axis=0)) if len(places) else (None, None)
    return {"x": x, "y": y}


def _short(value: float) -> float:
    return round(float(value), 4)
