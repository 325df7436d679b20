"""Filters over answers: ``answer = 'refund'`` becomes the texts whose answer to one question is that.

``@answer`` is the answer; ``answer`` is it too where no field of the documents can be meant. A filter that says either
accepts texts with an answer alone, also with ``!=``, ``not`` and ``or``: what nobody has read is unknown.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from retriever.core.results import KnownAnswers
from retriever.core.text import composed
from retriever.store.filter_tree import Comparison, FilterGroup, Node, Not, TextsAmong
from retriever.store.filters import ANSWER, Filter, fields_meant, filter_error, parse_filter

_COMPARE: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "in": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
}


def with_answer_named(condition: Filter, fields: Mapping[str, str]) -> Filter:
    """Return a filter that says ``@answer`` where it said ``answer`` and no field can be meant.

    So it keeps its meaning where documents with such a field come later. Fields are as for `Filter.compile`.

    Raises:
        FilterError: it is too long then.
    """
    written = condition.expression
    for node in reversed(list(_comparisons(condition.root))):
        if node.field == ANSWER[1:] and not fields_meant(node.field, fields):
            written = f"{written[: node.position]}{ANSWER}{written[node.position + len(node.field) :]}"
    return condition if written == condition.expression else parse_filter(written)


def first_answer(condition: Filter) -> int | None:
    """Return where a filter first says ``@answer``; None where it does not."""
    return next((node.position for node in _comparisons(condition.root) if node.field == ANSWER), None)


def decided_by(condition: Filter, answers: Mapping[int, str], texts: int) -> Filter:
    """Return a filter whose comparisons of ``@answer`` are decided by the known answers to the question.

    They are given by the content id of texts that have a document; ``texts`` counts the distinct texts of the index.

    Raises:
        FilterError: an answer is compared with what is no text, or as a list.
    """
    folded = {content: _folded(answer) for content, answer in answers.items()}

    def decided(node: Node) -> Node:
        if isinstance(node, Not):
            return Not(decided(node.node))
        if isinstance(node, FilterGroup):
            return FilterGroup(node.operator, tuple(map(decided, node.nodes)))
        if not isinstance(node, Comparison) or node.field != ANSWER:
            return node
        accepts = _test(condition, node)
        return TextsAmong(tuple(content for content, answer in folded.items() if accepts(answer)))

    known = KnownAnswers(len(answers), texts)
    return replace(condition, root=decided(condition.root), known=known).among(answers.keys())


def _test(condition: Filter, node: Comparison) -> Callable[[str], bool]:
    """Return whether an answer, folded, passes a comparison, whatever the case."""
    values = [_folded(value) for value in node.values if isinstance(value, str)]
    if node.operator not in _COMPARE or len(values) < len(node.values):
        problem = "An answer is a text, and no list." if node.operator == "has" else "An answer is a text."
        raise filter_error(
            problem, condition.expression, node.position, f"Compare it with one in quotes: {ANSWER} = 'refund'."
        )
    compare = _COMPARE[node.operator]
    return lambda answer: any(compare(answer, value) for value in values)


def _folded(text: str) -> str:
    return composed(text).casefold()


def _comparisons(node: Node) -> Iterator[Comparison]:
    """Yield the comparisons of a tree in the order of their fields."""
    if isinstance(node, Not):
        yield from _comparisons(node.node)
    elif isinstance(node, FilterGroup):
        for child in node.nodes:
            yield from _comparisons(child)
    elif isinstance(node, Comparison):
        yield node
