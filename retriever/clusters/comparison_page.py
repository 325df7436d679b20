"""A comparison of two instructions as a page without scripts: what texts and models say is shown, never run."""

from pathlib import Path

from retriever.clusters.comparing import ClusterChange, RankChange
from retriever.clusters.pages import page
from retriever.core.paths import write_output


def write_page(path: Path, change: RankChange | ClusterChange) -> None:
    """Write a comparison as a page.

    Raises:
        OutputError: the file cannot be written.
    """
    ranks = isinstance(change, RankChange)
    if isinstance(change, RankChange):
        title, says = change.results[0].query, [f"{change.overlap:.0%} of the hits are in both.", *change.approximate]
    else:
        title = "Clusters"
        says = [
            f"{change.moved} documents are in another cluster. Adjusted Rand index {change.rand:.2f}, "
            f"adjusted mutual information {change.information:.2f}."
        ]
    write_output(path, page("comparison.html", change=change, ranks=ranks, title=title, says=says), "--html")
