"""Prompts: three of an analyst's jobs, as an agent with these tools should go about them."""

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

_Index = Annotated[str, Field(description="Name of the index.")]


def add_prompts(server: MCPServer) -> None:
    """Add the prompts to a server."""

    @server.prompt(title="What do people complain about?")
    def complaints(index: _Index, where: Annotated[str, Field(description="A filter, or nothing.")] = "") -> str:
        """Report the main complaints with their shares and quotes."""
        limited = f" Use the filter {where!r} throughout." if where else ""
        return (
            f"Report what people complain about in the index {index!r}.{limited}\n"
            "1. Call `describe` to learn how many documents there are and which fields; where one holds stars, keep to "
            "the low ones with a filter and say so.\n"
            "2. Call `cluster` with the instruction 'What do people complain about?'.\n"
            "3. For each of the five largest groups `fetch` two of its examples, and quote a sentence of each with its "
            "id.\n"
            "4. Give a table: complaint, documents, share of all that were grouped. Say what `left_out` says, and that "
            "names of groups were made by a model."
        )

    @server.prompt(title="What changed?")
    def what_changed(
        index: _Index,
        question: Annotated[str, Field(description="What to look at, in plain words.")],
        before: Annotated[str, Field(description="A filter for the earlier documents.")],
        after: Annotated[str, Field(description="A filter for the later ones.")],
    ) -> str:
        """Compare two parts of a corpus under one question."""
        return (
            f"Tell what changed in the index {index!r} between the documents with {before!r} and those with {after!r}, "
            f"looking at: {question}\n"
            "1. `count` both parts; where one has fewer than 30 documents, say that shares mean little.\n"
            "2. `diagnose` the question; where it is hardly followed, stop and say so.\n"
            "3. `cluster` each part under the question, and put groups side by side that say the same.\n"
            "4. For what grew or shrank by more than a third, quote two documents with their ids. Give counts beside "
            "every share."
        )

    @server.prompt(title="Find evidence for a claim")
    def evidence(index: _Index, claim: Annotated[str, Field(description="The claim, in one sentence.")]) -> str:
        """Gather documents for and against a claim."""
        return (
            f"Gather evidence in the index {index!r} for and against: {claim}\n"
            "1. Put the claim as a question that every text could answer, and use it as the instruction.\n"
            "2. `search` for the claim under it, then for its opposite, with k 20 each. Judge by the texts, not by "
            "scores.\n"
            "3. `fetch` what was cut. Sort the documents into for, against and neither, each with id and a quote.\n"
            "4. `count` what the corpus holds, and say how many documents were looked at: a search shows the nearest, "
            "never all of them."
        )
