"""A LangChain pipeline over an index: the documents that answer a question, put together for a language model."""

import argparse

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from retriever.integrations.langchain import IndexRetriever

QUESTION = "What broke?"


def quoted(documents: list[Document]) -> str:
    """Write documents with their ids, for a prompt."""
    return "\n".join(f"[{one.id}] {one.page_content}" for one in documents)


def main() -> None:
    """Print the prompt that a chat model would get."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="indexes/demo")
    parser.add_argument("--query", default="it stopped working after a few days")
    options = parser.parse_args()
    retriever = IndexRetriever(index=options.index, instruction=QUESTION, k=3)
    prompt = ChatPromptTemplate.from_template("Reviews:\n{reviews}\n\nAnswer with ids as evidence: {question}")
    chain = {"reviews": retriever | RunnableLambda(quoted), "question": RunnablePassthrough()} | prompt
    print(chain.invoke(options.query).to_string())
    plainly = retriever.invoke(options.query, instruction="", k=1)
    print(f"Without the instruction the first is {plainly[0].id}.")


if __name__ == "__main__":
    main()
