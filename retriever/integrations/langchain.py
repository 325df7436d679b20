"""A LangChain retriever over an index: any chain or agent that takes a retriever takes this one."""

from typing import Any

from pydantic import Field, PrivateAttr

from retriever.core.errors import RetrieverError
from retriever.core.results import Mode
from retriever.integrations.opened import as_index, found, metadata_of
from retriever.workspace import Index

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError as error:
    raise RetrieverError("The package 'langchain_core' is missing.", hint="pip install langchain-core") from error


class IndexRetriever(BaseRetriever):
    """Documents of an index that answer a query under an instruction.

    ``retriever.invoke(query, instruction="What broke?", where="stars <= 2")`` says another instruction, filter or k for
    one call. A document's metadata are those of the corpus, and under ``"retriever"`` its score, percentile and words.

    Args:
        index: an index's folder, or an open index, which stays its owner's to close.
        instruction: what to look at; empty for plain similarity.
        k: documents wanted.
        where: a filter over metadata, such as ``stars <= 2``.
        mode: dense, lexical, hybrid, or auto.
    """

    index: Any = Field(exclude=True)
    instruction: str = ""
    k: int = 10
    where: str | None = None
    mode: Mode = "auto"
    _opened: Index = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's
        """Open the index."""
        super().model_post_init(context)
        self._opened = as_index(self.index)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        instruction: str | None = None,
        k: int | None = None,
        where: str | None = None,
    ) -> list[Document]:
        asked = self.instruction if instruction is None else instruction
        limit = self.k if k is None else k
        hits = found(self._opened, query, asked, limit, self.where if where is None else where, self.mode)
        return [
            Document(id=hit.document.id, page_content=hit.document.text, metadata=metadata_of(hit, asked))
            for hit in hits
        ]
