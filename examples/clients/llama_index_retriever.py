"""A LlamaIndex pipeline over an index: retrieve, keep what is near enough, and see scores and metadata."""

import argparse

from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import QueryBundle

from retriever.integrations.llama_index import IndexRetriever

QUESTION = "What broke?"


def main() -> None:
    """Print the nodes that are nearest to a query under a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="indexes/demo")
    parser.add_argument("--query", default="it stopped working after a few days")
    parser.add_argument("--where", default=None)
    options = parser.parse_args()
    retriever = IndexRetriever(options.index, instruction=QUESTION, k=5, where=options.where, mode="dense")
    nodes = retriever.retrieve(QueryBundle(options.query))
    for node in SimilarityPostprocessor(similarity_cutoff=0.2).postprocess_nodes(nodes):
        words = ", ".join(node.metadata["retriever"]["words"])
        print(f"{node.score:.3f}  {node.node_id}  [{words}]  {node.text[:80]}")


if __name__ == "__main__":
    main()
