"""`retriever compact`: fresh FAISS indexes, no leftovers."""

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    DeviceOption,
    FactoryOption,
    IndexOption,
    JsonOption,
    RecallOption,
)


def compact(
    index: IndexOption = DEFAULT_INDEX,
    factory: FactoryOption = "auto",
    min_recall: RecallOption = 0.95,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Free what deleted documents left behind and rebuild every view's FAISS index from the database.

    Example: retriever compact --factory HNSW32,SQfp16
    """
    from retriever.services.generations import IndexType
    from retriever.services.workspace import Index

    with Index(index) as opened:
        built = opened.compact(IndexType(factory, min_recall, device))
        views = opened.views()
    if json:
        output.document({"schema_version": 1, "generations": built})
        return
    output.result(f"{len(built)} views rebuilt.")
    output.table(
        ["view", "index", "recall@10"],
        [[one.view, one.factory or "-", "-" if one.recall is None else f"{one.recall:.3f}"] for one in views],
    )
