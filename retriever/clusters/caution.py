"""What to know before clusters are taken for answers, where the model hardly follows their question."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retriever.clusters.clustering import Clustering

FEW = 3
"""Clusters that the silhouette chooses where it finds no more than the coarsest division of the texts."""


def division(found: "Clustering") -> str:
    """Say what clusters are where their question is hardly followed; nothing elsewhere."""
    if found.verdict is None or found.verdict.level != "hardly":
        return ""
    count = len(found.clusters)
    if found.choice is not None and count <= FEW:
        return f"These {count} clusters are what sets the texts most apart, not answers to the question."
    return "These clusters are what sets the texts apart, not answers to the question."


def caution(found: "Clustering") -> str:
    """Say what to know before clusters are taken for answers, and what to do; nothing where there is nothing."""
    if found.verdict is None or not found.verdict.warns:
        return ""
    return f"{division(found)} {found.verdict.sentence}".strip()
