"""`describe`: what an index holds."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from retriever.api.mcp.arguments import IndexName
from retriever.api.mcp.desk import Bounded, Desk
from retriever.index.counting import known_fields
from retriever.index.profiling import Profile, profile, read_columns

_VALUES = 12


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""

    def described(index: str) -> dict[str, Any]:
        name = desk.index_name(index)
        opened, bounded = desk.service.whole_index(name), Bounded()
        status, found = opened.status(), profile(opened, read_columns(opened))
        views = bounded.take(
            [one for one in status.views if one.instruction],
            lambda one: {
                "instruction": one.instruction,
                "coverage": round(one.coverage, 3),
                "vectors": one.vectors,
                "followed": None if one.verdict is None else one.verdict.level,
            },
            of="views",
        )
        fields = bounded.take(sorted(known_fields(opened)), str, of="fields")
        return bounded.closed(
            {
                "index": name,
                "documents": found.documents,
                "different_texts": found.texts,
                "fields": fields,
                "model": status.encoder.get("name"),
                "views": views,
                **_counts(bounded, found),
            }
        )

    async def describe(index: IndexName = "") -> dict[str, Any]:
        """Describe an index: how many documents, which fields they have, which instructions it has vectors for.

        Of an instruction, `followed` says whether the model does: followed, unclear or hardly; null is not known.
        The fields are what filters and counts can use; of stars, categories, products and months, where there are
        such fields, it gives the values too.
        """
        return await desk.work(lambda: described(index))

    return describe


def _counts(bounded: Bounded, found: Profile) -> dict[str, Any]:
    """Return how many documents have which stars, category, product and month, the most frequent values of each."""
    counted: dict[str, tuple[str, Mapping[Any, int]]] = {
        "stars": (found.columns.stars, found.stars),
        "categories": (found.columns.category, found.categories),
        "products": (found.columns.product, found.products),
        "months": (found.columns.date, found.months),
    }
    shown: dict[str, Any] = {}
    for kind, (field, counts) in counted.items():
        most = sorted(counts.items(), key=lambda one: -one[1])[:_VALUES]
        if most:
            shown[kind] = {"field": field, "values": {bounded.text(str(value), 200): count for value, count in most}}
        if len(counts) > _VALUES:
            bounded.left_out.append(f"{len(counts) - _VALUES} of {len(counts)} {kind}, which `count` gives")
    if found.days is not None:
        shown["days"] = list(found.days)
    return shown
