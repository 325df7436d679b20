"""Tools that say what there is: indexes, what one holds, counts, and a document whole."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.context import (
    ANSWER_CHARACTERS,
    Bounded,
    IndexName,
    ToolContext,
    Where,
    blocking,
    metadata_of,
    parse_uri,
    uri_of,
)
from retriever.api.problems import problem_of
from retriever.core.errors import InputError, RetrieverError, UsageError
from retriever.index.counting import count_documents
from retriever.index.profiling import Profile, profile, read_columns

_VALUES = 12
_INSTRUCTIONS = 8


@blocking
def list_indexes(context: ToolContext) -> dict[str, Any]:
    """Name the indexes (corpora) there are, how many documents each has, and what it has been asked before.

    Begin here. Searching and clustering under one of `instructions` is quick. Of those in `half_read` a part of the
    texts, `coverage`, is read; under these and under a new one, texts are read first.
    """

    def described(name: str) -> dict[str, Any]:
        try:
            opened = context.service.index(name)
            documents, views = count_documents(opened).documents, opened.views()
        except RetrieverError as error:
            return {"index": name, "problem": problem_of(error).message}
        views = [view for view in views if view.instruction]
        half_read = [
            {"instruction": view.instruction, "coverage": round(view.coverage, 3)} for view in views if view.lazy
        ]
        instructions = [view.instruction for view in views if not view.lazy]
        heads = {"index": name, "documents": documents, "instructions": instructions[:_INSTRUCTIONS]}
        return {**heads, "half_read": half_read[:_INSTRUCTIONS]}

    bounded = Bounded()
    return bounded.closed({"indexes": bounded.take(context.service.names(), described, of="indexes")})


@blocking
def describe(context: ToolContext, index: IndexName = "") -> dict[str, Any]:
    """Describe an index: how many documents, which fields they have, which instructions it has vectors for.

    Of an instruction, `followed` says whether the model does: followed, unclear or not followed; null is not known.
    `reading_on` has the instructions whose texts are read on while nobody waits, the next first, with the texts that
    are read already; null where this server reads nothing on.
    The fields are what filters and counts can use, each with the type of its values. Dates are compared as moments in
    UTC: `date <= '2024-05-31'` takes in all of that day, `date = '2024-05'` is that month. Of stars, categories,
    products and months, where there are such fields, it gives the values too.
    """
    name = context.index_name(index)
    opened, bounded = context.service.index(name), Bounded()
    status, contents = opened.status(), profile(opened, read_columns(opened))
    views = bounded.take(
        [view for view in status.views if view.instruction],
        lambda view: {
            "instruction": view.instruction,
            "coverage": round(view.coverage, 3),
            "vectors": view.vectors,
            "followed": None if view.verdict is None else view.verdict.level,
        },
        of="views",
    )
    fields = dict(bounded.take(list(status.fields.items()), list, of="fields"))
    answer = {"index": name, "documents": contents.documents, "different_texts": contents.texts, "fields": fields}
    answer |= {"model": status.encoder.get("name"), "views": views, "reading_on": context.service.read_on(opened)}
    answer |= _counts(bounded, contents)
    return bounded.closed(answer)


@blocking
def count(
    context: ToolContext,
    index: IndexName = "",
    where: Where = "",
    by: Annotated[str, Field(description="A metadata field: count its values, dates by day, month or year.")] = "",
) -> dict[str, Any]:
    """Count documents, all of them or those that a filter accepts, and by the values of a metadata field."""
    name = context.index_name(index)
    counts, bounded = count_documents(context.service.index(name), where or None, by or None), Bounded()
    rows = list(counts.values.items())
    values = bounded.take(rows, lambda row: {"value": bounded.text(row[0], 200), "documents": row[1]}, of="values")
    answer = {"index": name, "where": where, "documents": counts.documents}
    if counts.field is not None:
        answer |= {"field": counts.field, "values": values, "without_the_field": counts.without}
    return bounded.closed(answer)


@blocking
def fetch(
    context: ToolContext,
    id: Annotated[str, Field(description="The document's id or uri, as `search` gives it.")],
    index: IndexName = "",
    offset: Annotated[int, Field(ge=0, description="Where in the text to begin, in characters.")] = 0,
) -> dict[str, Any]:
    """Return a document whole, text and metadata, by the id or uri that `search` or `cluster` gives.

    A very long text comes in pieces: `left_out` says how to ask for the next.
    """
    named, document_id = parse_uri(id, index)
    name = context.index_name(named)
    documents = context.service.index(name).get([document_id])
    if document_id not in documents:
        raise InputError(f"There is no document {document_id!r} in {name}.", hint="Ids are those that `search` gives.")
    document, bounded = documents[document_id], Bounded()
    if offset and offset >= len(document.text):
        raise UsageError(f"The text ends at {len(document.text)}.", hint="Begin before that.")
    text = document.text[offset : offset + ANSWER_CHARACTERS]
    after = len(document.text) - offset - len(text)
    if after:
        bounded.left_out.append(f"{after} characters behind these: ask with offset {offset + len(text)}")
    metadata = metadata_of(bounded, document)
    answer = {"id": document_id, "index": name, "uri": uri_of(name, document_id), "text": text, "metadata": metadata}
    return {**answer, "left_out": bounded.left_out}


def _counts(bounded: Bounded, contents: Profile) -> dict[str, Any]:
    """Return how many documents have which stars, category, product and month, the most frequent values of each."""
    counted: dict[str, tuple[str, Mapping[Any, int]]] = {
        "stars": (contents.columns.stars, contents.stars),
        "categories": (contents.columns.category, contents.categories),
        "products": (contents.columns.product, contents.products),
        "months": (contents.columns.date, contents.months),
    }
    shown: dict[str, Any] = {}
    for kind, (field, counts) in counted.items():
        most = sorted(counts.items(), key=lambda value: -value[1])[:_VALUES]
        if most:
            shown[kind] = {"field": field, "values": {bounded.text(str(value), 200): count for value, count in most}}
        if len(counts) > _VALUES:
            bounded.left_out.append(f"{len(counts) - _VALUES} of {len(counts)} {kind}, which `count` gives")
    if contents.days is not None:
        shown["days"] = list(contents.days)
    return shown
