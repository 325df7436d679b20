"""A LlamaIndex retriever over an index: any query engine that takes a retriever takes this one."""

from pathlib import Path

from retriever.core.errors import RetrieverError
from retriever.core.results import Mode
from retriever.integrations.opened import as_index, found, metadata_of
from retriever.workspace import Index

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise RetrieverError("The package 'llama_index' is missing.", hint="pip install llama-index-core") from error


class IndexRetriever(BaseRetriever):
    """Nodes of an index that answer a query under an instruction, a node a document.

    A node's score is the cosine under the instruction; None where it was found by words alone. Its metadata are those
    of the corpus, and under ``"retriever"`` what the search said besides; language models see the corpus's.

    Args:
        index: an index's folder, or an open index, which stays its owner's to close.
        instruction: what to look at; empty for plain similarity.
        k: nodes wanted.
        where: a filter over metadata, such as ``stars <= 2``.
        mode: dense, lexical, hybrid, or auto.
    """

    def __init__(
        self,
        index: Index | str | Path,
        *,
        instruction: str = "",
        k: int = 10,
        where: str | None = None,
        mode: Mode = "auto",
    ) -> None:
        super().__init__()
        self._index = as_index(index)
        self.instruction = instruction
        self.k = k
        self.where = where
        self.mode: Mode = mode

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = found(self._index, query_bundle.query_str, self.instruction, self.k, self.where, self.mode)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit.document.id,
                    text=hit.document.text,
                    metadata=metadata_of(hit, self.instruction),
                    excluded_llm_metadata_keys=["retriever"],
                    excluded_embed_metadata_keys=["retriever"],
                ),
                score=hit.score,
            )
            for hit in hits
        ]
