"""A LangChain retriever over an index: any chain or agent that takes a retriever takes this one."""

from typing import Any

from pydantic import Field, PrivateAttr

from retriever.core.errors import RetrieverError
from retriever.core.requests import SearchRequest
from retriever.forms import made, model_fields
from retriever.integrations.opened import SUBJECT, as_index, metadata_of
from retriever.workspace import Index

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError as error:
    raise RetrieverError("The package 'langchain_core' is missing.", hint="pip install langchain-core") from error


@model_fields(SearchRequest, leave_out=SUBJECT)
class IndexRetriever(BaseRetriever):
    """Documents of an index that answer a query under an instruction.

    The options are those of `SearchRequest`; ``retriever.invoke(query, instruction="What broke?", k=3)`` gives others
    for one call. A document's metadata are those of the corpus, and under ``"retriever"`` its score, percentile and
    words.

    Args:
        index: an index's folder, or an open index, which stays its owner's to close.
        options: those of `SearchRequest` but for query and like.
    """

    index: Any = Field(exclude=True)
    _opened: Index = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's
        """Open the index."""
        super().model_post_init(context)
        self._opened = as_index(self.index)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: object
    ) -> list[Document]:
        request = made(SearchRequest, vars(self), query=query, **options)
        return [
            Document(id=hit.document.id, page_content=hit.document.text, metadata=metadata_of(hit, request.instruction))
            for hit in self._opened.search_many([request])[0].hits
        ]
