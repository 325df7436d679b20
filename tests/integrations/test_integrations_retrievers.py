import anyio
import pytest
from index_fakes import MOOD, PRODUCT, found

from retriever.core.errors import FilterError, IndexNotFoundError, UsageError

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from langchain_core.runnables import RunnableLambda
from llama_index.core.postprocessor import SimilarityPostprocessor

from retriever.integrations.langchain import IndexRetriever as LangChainRetriever
from retriever.integrations.llama_index import IndexRetriever as LlamaRetriever


def test_langchain_gets_what_the_index_finds(index):
    retriever = LangChainRetriever(index=index, instruction=PRODUCT, k=3, mode="dense")
    documents = retriever.invoke("kettle")
    expected = index.search("kettle", instruction=PRODUCT, k=3, mode="dense")
    said = [one.metadata["retriever"] for one in documents]
    assert [(one.id, more["score"]) for one, more in zip(documents, said, strict=True)] == found(expected)
    assert documents[0].page_content == "a kettle I love"
    assert (documents[0].metadata["stars"], documents[0].metadata["score"]) == (1, "mine")
    assert (said[0]["words"], said[0]["instruction"]) == (["kettle"], PRODUCT)


def test_langchain_takes_an_instruction_and_a_filter_for_one_call(index):
    retriever = LangChainRetriever(index=index, instruction=PRODUCT, k=2, mode="dense")
    assert retriever.invoke("toy hate", instruction=MOOD, k=1)[0].id == "r2"
    assert [one.id for one in retriever.invoke("kettle", where="stars >= 3", k=1)] == ["r3"]
    assert retriever.invoke("kettle")[0].id == "r1"  # and not for the next
    with pytest.raises(FilterError, match="colour"):
        retriever.invoke("kettle", where="colour = 'red'")


def test_langchain_chains_and_waits(index):
    retriever = LangChainRetriever(index=index.path, instruction=PRODUCT, mode="lexical", k=1)
    chain = retriever | RunnableLambda(lambda documents: [one.id for one in documents])
    assert chain.invoke("leaks") == ["r3"]
    assert anyio.run(chain.ainvoke, "leaks") == ["r3"]
    assert chain.batch(["leaks", "lamp"]) == [["r3"], ["r4"]]


def test_llama_index_gets_what_the_index_finds(index):
    retriever = LlamaRetriever(index, instruction=PRODUCT, k=3, mode="dense")
    nodes = retriever.retrieve("kettle")
    expected = index.search("kettle", instruction=PRODUCT, k=3, mode="dense")
    assert [(node.node_id, node.score) for node in nodes] == found(expected)
    assert nodes[0].text == "a kettle I love"
    assert nodes[0].metadata["score"] == "mine"
    assert nodes[0].metadata["retriever"]["words"] == ["kettle"]
    seen = nodes[0].node.get_content(metadata_mode="llm")
    assert "stars: 1" in seen
    assert "percentile" not in seen
    near = SimilarityPostprocessor(similarity_cutoff=0.99).postprocess_nodes(nodes)
    assert [node.node_id for node in near] == ["r1", "r3"]
    assert [node.node_id for node in anyio.run(retriever.aretrieve, "kettle")] == [node.node_id for node in nodes]


@pytest.mark.parametrize(
    "make", [lambda given: LangChainRetriever(index=given), LlamaRetriever], ids=["langchain", "llama"]
)
def test_what_is_no_index_is_said(make, tmp_path):
    with pytest.raises((UsageError, ValueError), match="int is no index"):
        make(7)
    empty = make(tmp_path / "none")
    with pytest.raises(IndexNotFoundError, match="no index at"):
        (empty.invoke if hasattr(empty, "invoke") else empty.retrieve)("kettle")
