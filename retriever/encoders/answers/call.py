"""A call to a language model: its messages, the schema of its reply, and the check of it. Pure, as `wire` is.

Instructions stand in the system message. The one user message is a JSON object, and so is the reply.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, cast

from pydantic import BaseModel

from retriever.core.types import JSON
from retriever.encoders.answers.answerer import Answerer, C, Spend, Unread
from retriever.encoders.answers.replies import UnusableError, content_of, parsed
from retriever.encoders.answers.wire import Format, Reply


class Call(ABC, Generic[C]):
    """A call; a subclass says what it sends, and makes a checked reply of what the model wrote.

    Attributes:
        name: of the schema.
        reply: the form of a reply, as pydantic reads it; readers of other shapes stand in its validators.
        reply_tokens: tokens that a reply may have.
    """

    name: ClassVar[str]
    reply: ClassVar[type[BaseModel]]
    reply_tokens: int

    @abstractmethod
    def system(self, form: Format) -> str:
        """Return the instructions."""

    @abstractmethod
    def content(self) -> Mapping[str, JSON]:
        """Return the object that the user's message holds."""

    @abstractmethod
    def checked(self, written: Any) -> C:  # noqa: ANN401 - a model of the class `reply`
        """Check what the model wrote; may raise `UnusableError`."""

    @abstractmethod
    def unusable(self, reason: Unread) -> C:
        """Return the checked reply of which nothing can be used."""

    def limits(self) -> Mapping[str, Mapping[str, JSON]]:
        """Return keywords for the schema, by the path of the value they limit, as `schema_of` takes them."""
        return {}

    def messages(self, form: Format) -> list[dict[str, str]]:
        """Return the message of the system and that of the user."""
        content = json.dumps(self.content(), ensure_ascii=False)
        return [{"role": "system", "content": self.system(form)}, {"role": "user", "content": content}]

    def response_format(self, form: Format) -> JSON:
        """Return the ``response_format``; None where the rung has none."""
        if form is Format.LINES:
            return None
        if form is Format.OBJECT:
            return {"type": "json_object"}
        schema = schema_of(self.reply, self.limits() if form is Format.LIMITED else {})
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": schema}}

    def written(self, content: str, form: Format) -> BaseModel:
        """Return what the model wrote; raises `UnusableError` where it has another form."""
        return parsed(content, self.reply)

    def check(self, reply: Reply, form: Format) -> C:
        """Check a reply, whatever the server promised of its form."""
        try:
            content = content_of(reply)
            return self.checked(self.written(content, form))
        except UnusableError as unusable:
            cut = unusable.reason is Unread.BROKEN and reply.finish == "length"
            return self.unusable(Unread.CUT if cut else unusable.reason)


def schema_of(model: type[BaseModel], limits: Mapping[str, Mapping[str, JSON]]) -> JSON:
    """Return the strict JSON schema of a model, without references.

    Args:
        model: lists, strings and other models are its fields.
        limits: further keywords by path: ``texts`` is a field, ``texts[]`` an item of its list.
    """
    document = model.model_json_schema()
    known: Mapping[str, Mapping[str, Any]] = document.get("$defs", {})

    def strict(node: Mapping[str, Any], path: str) -> dict[str, Any]:
        node = known[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        made: dict[str, Any] = {"type": node["type"]}
        if "properties" in node:
            fields = node["properties"].items()
            made["properties"] = {name: strict(part, f"{path}.{name}".lstrip(".")) for name, part in fields}
            made |= {"required": list(node["properties"]), "additionalProperties": False}
        if "items" in node:
            made["items"] = strict(node["items"], f"{path}[]")
        return {**made, **limits.get(path, {})}

    return cast("JSON", strict(document, ""))


@dataclass(frozen=True, slots=True)
class RefusableCall(Call[C]):
    """A call that can be sent once more; its checked reply says in ``refused`` why there is nothing to take.

    Attributes:
        last_fault: the sentence that says why the last reply was refused; empty for a first call.
    """

    last_fault: str = field(default="", kw_only=True)

    @abstractmethod
    def instructions(self) -> str:
        """Return the instructions, the same in every form."""

    def system(self, form: Format) -> str:
        """Return the instructions, and why the last reply was refused."""
        return self.instructions() + (f"\nYour last reply was refused: {self.last_fault}" if self.last_fault else "")

    def again(self, reason: str) -> Self:
        """Return the call that is sent after a refused reply."""
        return replace(self, last_fault=reason)


def send_twice(answerer: Answerer, call: RefusableCall[C], *, spend: Spend | None = None) -> tuple[C, str]:
    """Send a call, and once more with the reason where its reply is refused.

    Args:
        answerer: who is asked.
        call: the first of at most two.
        spend: called with tokens.

    Returns:
        The last checked reply, and why it is refused; empty where it is taken.

    Raises:
        EncoderError: the model cannot be asked.
    """
    checked: Any = answerer.send(call, spend=spend)
    if checked.refused:
        checked = answerer.send(call.again(checked.refused), spend=spend)
    return checked, checked.refused
