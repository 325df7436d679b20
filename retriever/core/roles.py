"""Prompts by role: what an encoder puts before a query, and what before a document."""

from dataclasses import dataclass

INSTRUCTION = "{instruction}"
"""Stands for the instruction in the prompt of a query."""


@dataclass(frozen=True, slots=True)
class RolePrompts:
    r"""The prompts of an encoder that reads queries and documents in different ways.

    Texts that are compared with each other (clusters, similar documents) are documents.

    Attributes:
        query: before a query. With ``{instruction}`` in it, as in ``Instruct: {instruction}\nQuery:``, the model was
            trained to follow an instruction in the query, against documents that were read without one.
        document: before a document.
        default_instruction: for ``{instruction}`` where none is given.
        origin: how these prompts were recognised, in words; empty where there are none.
    """

    query: str = ""
    document: str = ""
    default_instruction: str = ""
    origin: str = ""

    def __bool__(self) -> bool:
        return bool(self.query or self.document)

    @property
    def instructed(self) -> bool:
        """Whether instructions belong to queries, so that documents are read without them."""
        return INSTRUCTION in self.query

    def before_query(self, instruction: str = "") -> str:
        r"""Return what stands before a query under an instruction.

        >>> RolePrompts(query="query: ").before_query()
        'query: '
        >>> RolePrompts(query="Instruct: {instruction}\nQuery:").before_query("Find causes.")
        'Instruct: Find causes.\nQuery:'
        """
        if self.instructed:
            return self.query.replace(INSTRUCTION, instruction.strip() or self.default_instruction)
        return self.query + _sentence(instruction)

    def before_document(self, instruction: str = "") -> str:
        """Return what stands before a document under an instruction.

        Where instructions belong to queries, documents under one are read as queries under it: to be compared with each
        other, as in clusters.

        >>> RolePrompts(document="passage: ").before_document()
        'passage: '
        """
        if self.instructed and instruction.strip():
            return self.before_query(instruction)
        return self.document + _sentence(instruction)


def _sentence(instruction: str) -> str:
    return f"{instruction.strip()} " if instruction.strip() else ""
