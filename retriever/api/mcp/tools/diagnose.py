"""`diagnose`: whether an instruction is followed."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.arguments import IndexName
from retriever.api.mcp.desk import Desk
from retriever.api.mcp.patience import Patience
from retriever.evaluation.run import diagnosing

_KEPT = ("level", "verdict", "instruction", "chance", "texts", "words")


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""
    patience = Patience(desk)

    async def diagnose(
        instruction: Annotated[str, Field(description="The instruction in question.")], index: IndexName = ""
    ) -> dict[str, Any]:
        """Tell whether the model follows an instruction on this index's texts: followed, unclear or hardly.

        Ask before you trust groups or searches under an unusual instruction. `words` are what the model answers most
        often, `chance` how likely it is that the instruction is followed. Takes seconds.
        """
        name = await desk.work(lambda: desk.index_name(index))

        def work() -> dict[str, Any]:
            desk.limits.check_instruction(instruction)
            opened = desk.service.whole_index(name)
            texts = diagnosing.index_texts(opened, diagnosing.DIAGNOSED_TEXTS)
            readers = opened.readers
            plain = readers.base if readers.two else None
            found = diagnosing.diagnose(readers.question, texts, instruction, plain=plain).to_json()
            return {"index": name, **{key: found[key] for key in _KEPT}, "left_out": []}

        return await patience.answer("diagnose", (name, instruction), lambda job: work())

    return diagnose
