"""What to know before clusters are taken for answers, where the model hardly follows their question."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retriever.clusters.clustering import Clustering

FEW = 3
"""Clusters that the silhouette chooses where it finds no more than the coarsest division of the texts."""


def division(found: "Clustering") -> str:
    """Say what clusters are where their question is hardly followed; nothing elsewhere."""
    if found.verdict is None or found.verdict.level != "hardly":
        return ""
    return _divided(len(found.clusters), chosen=found.choice is not None)


def division_of(document: Mapping[str, Any]) -> str:
    """Say the same by the documented JSON of a clustering; categories that somebody named are what they are named."""
    verdict = document.get("verdict")
    if verdict is None or verdict["level"] != "hardly" or document.get("kind") is not None:
        return ""
    return _divided(len(document["clusters"]), chosen=document["chosen"] is not None)


def caution(found: "Clustering") -> str:
    """Say what to know before clusters are taken for answers, and what to do; nothing where there is nothing."""
    if found.verdict is None or not found.verdict.warns:
        return ""
    return f"{division(found)} {found.verdict.sentence}".strip()


def _divided(count: int, *, chosen: bool) -> str:
    if chosen and count <= FEW:
        return f"These {count} clusters are what sets the texts most apart, not answers to the question."
    return "These clusters are what sets the texts apart, not answers to the question."
