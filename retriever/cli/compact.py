"""`retriever compact`: fresh vector indexes, no leftovers."""

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    BackendOption,
    DeviceOption,
    FactoryOption,
    IndexOption,
    JsonOption,
    RecallOption,
)
from retriever.core.schema import SCHEMA_VERSION


def compact(
    index: IndexOption = DEFAULT_INDEX,
    backend: BackendOption = None,
    factory: FactoryOption = None,
    min_recall: RecallOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Free what deleted documents left behind and rebuild every view's vector index from the database.

    Example: retriever compact --factory HNSW32,SQfp16
    """
    from retriever.index.generations import IndexType
    from retriever.workspace import Index

    with Index(index, device=device) as opened:
        built = opened.compact(IndexType(factory, min_recall, backend))
        views = opened.views()
    if json:
        output.document({"schema_version": SCHEMA_VERSION, "generations": built})
        return
    output.result(f"{len(built)} views rebuilt.")
    output.table(
        ["view", "index", "recall@10"],
        [
            [one.view, one.factory or one.backend or "-", "-" if one.recall is None else f"{one.recall:.3f}"]
            for one in views
        ],
    )
