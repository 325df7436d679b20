"""A LlamaIndex retriever over an index: any query engine that takes a retriever takes this one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from retriever.core.errors import RetrieverError
from retriever.core.requests import SearchRequest
from retriever.forms import keywords
from retriever.integrations.opened import SUBJECT, as_index, metadata_of
from retriever.workspace import Index

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise RetrieverError("The package 'llama_index' is missing.", hint="pip install llama-index-core") from error

_ANY = "any"  # in the place of the query, so that the options are checked when they are given


class IndexRetriever(BaseRetriever):
    """Nodes of an index that answer a query under an instruction, a node a document.

    A node's score is the cosine under the instruction; None where it was found by words alone. Its metadata are those
    of the corpus, and under ``"retriever"`` what the search said besides; language models see the corpus's.

    Args:
        index: an index's folder, or an open index, which stays its owner's to close.
        options: those of `SearchRequest` but for query and like.

    Raises:
        UsageError: as `SearchRequest`.
    """

    @keywords(SearchRequest, leave_out=SUBJECT)
    def __init__(self, index: Index | str | Path, **options: Any) -> None:  # noqa: ANN401 - as those of `SearchRequest`
        super().__init__()
        self._index = as_index(index)
        self._request = SearchRequest(_ANY, **options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        request = replace(self._request, query=query_bundle.query_str)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit.document.id,
                    text=hit.document.text,
                    metadata=metadata_of(hit, request.instruction),
                    excluded_llm_metadata_keys=["retriever"],
                    excluded_embed_metadata_keys=["retriever"],
                ),
                score=hit.score,
            )
            for hit in self._index.search_many([request])[0].hits
        ]
