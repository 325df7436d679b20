"""The ``--where`` language: ``stars <= 2 and (category = 'toy' or tags has 'gift') and not brand in ('A', 'B')``.

    comparison   field = value   (also != < <= > >=), field in (value, ...), field has value, field contains 'part'
    combined     not x, x and y, x or y, (x); `not` binds tightest, then `and`
    value        12, -0.5, 'text', "text", true, false, null; a quote inside a string is doubled
    field        stars, labels.stars, [product category]; the last part is enough where it is unique. A name that is no
                 plain word stands in brackets, or in backticks or, where a field is wanted, in double quotes
    answer       the answer in words to the request's instruction, where no field is meant; @answer always is
                 (`answer_filters`)

`has` looks for an item of a list; `contains` for a part of a text, whatever the case. Where a field holds dates, they
are compared as moments (`retriever.core.moments`): '2024-05-31' is that whole day, '2024-05' the month, 2024 the year.
Comparisons are typed and a missing field makes one false, even ``x != 1``; therefore ``not x = 1`` is true of a
document without ``x``.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from retriever.core.errors import FilterError
from retriever.core.moments import HOW_WRITTEN, span_of
from retriever.core.registry import nearest
from retriever.core.results import KnownAnswers
from retriever.core.text import composed
from retriever.store.field_types import HeldTypes, find_misfit
from retriever.store.filter_tree import (
    BoundField,
    Comparison,
    Compiled,
    FilterGroup,
    Node,
    Not,
    TextsAmong,
    Value,
    compile_node,
)

ANSWER = "@answer"
"""Stands in a filter for the answer to the request's instruction; a field of this name goes in brackets."""

MAX_LENGTH = 2000
MAX_DEPTH = 32

_WORD = r"[^\W\d][\w-]*(?:\.[\w-]+)*"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<answer>{ANSWER}(?![\w.-]))
      | (?P<word>{_WORD})
      | (?P<quoted>`[^`]+`|\[[^\]]+\])
      | (?P<operator><=|>=|!=|<>|==|=|<|>)
      | (?P<punctuation>[(),])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_CONSTANTS: Mapping[str, Value] = {"true": True, "false": False, "null": None}
_WORD_OPERATORS = ("in", "has", "contains")
_KEYWORDS = {*_CONSTANTS, *_WORD_OPERATORS, "and", "or", "not"}
_SPELLINGS = {"==": "=", "<>": "!="}


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter, not yet bound to an index's fields.

    Attributes:
        expression: as somebody wrote it.
        root: what it says.
        known: how many answers there were for it to look at; None where it asks for none.
    """

    expression: str
    root: Node
    known: KnownAnswers | None = None

    def compile(self, fields: Mapping[str, str], holds_dates: Callable[[str], bool]) -> Compiled:
        """Return the condition over the row of ``documents``.

        Args:
            fields: the index's field names and their JSON paths.
            holds_dates: tells whether the field of a path holds dates.

        Raises:
            FilterError: a field is unknown, its last part belongs to several, or it holds dates and is compared with a
                text that is none.
        """

        def bound(node: Comparison) -> BoundField:
            path = fields[self._resolve(node, fields)]
            dates = node.may_be_of_dates and holds_dates(path)
            strange = next((value for value in node.values if isinstance(value, str) and span_of(value) is None), None)
            if dates and strange is not None:
                problem = f"The field {node.field} holds dates, and {strange!r} is none."
                raise filter_error(problem, self.expression, node.position, f"Write dates as {HOW_WRITTEN}.")
            return BoundField(path, dates)

        return compile_node(self.root, bound)

    def among(self, contents: Collection[int]) -> "Filter":
        """Return the filter that also asks for a text among some, given by content id."""
        return replace(self, root=FilterGroup("AND", (self.root, TextsAmong(tuple(sorted(contents))))))

    def misfit(self, fields: Mapping[str, str], types_at: Callable[[str], HeldTypes]) -> FilterError | None:
        """Return what is wrong with a filter that no document can match, because fields hold values of other types.

        Args:
            fields: as for `compile`.
            types_at: gives the JSON types that a path's values have, and those of the items of lists there.
        """
        return find_misfit(self.root, lambda node: types_at(fields[self._resolve(node, fields)]))

    def _resolve(self, node: Comparison, fields: Mapping[str, str]) -> str:
        try:
            return resolve_field(node.field, fields)
        except FilterError as error:
            raise filter_error(error.message, self.expression, node.position, error.hint) from None


def resolve_field(name: str, fields: Mapping[str, str]) -> str:
    """Return the field that a name means: the one of that name, or else the only one whose last part it is.

    Args:
        name: as somebody wrote it, with or without brackets, backticks or double quotes around it.
        fields: as for `Filter.compile`.

    Raises:
        FilterError: no field has that name, or its last part belongs to several.
    """
    meant = fields_meant(name, fields)
    if len(meant) == 1:
        return meant[0]
    name = composed(_unquoted(name))
    if meant:
        hint = f"Write one of: {', '.join(map(spelled, sorted(meant)))}."
        raise FilterError(f"The field {name!r} is ambiguous.", hint=hint)
    hint = nearest(name, map(spelled, fields)) if fields else "The documents have no metadata."
    raise FilterError(f"No document has a field {name!r}.", hint=hint)


def fields_meant(name: str, fields: Mapping[str, str]) -> list[str]:
    """Return the fields that a name may mean: the one of that name, or else those whose last part it is.

    Arguments as for `resolve_field`.
    """
    if name in fields:  # one that holds a dot has quotes of its own
        return [name]
    name = _unquoted(name)
    if name in fields:
        return [name]
    name = composed(name)
    plain = {field: composed(field.replace('"', "")) for field in fields}
    exact = [field for field in fields if plain[field] == name]
    return exact or [field for field in fields if plain[field].endswith(f".{name}")]


def spelled(field: str) -> str:
    """Return a field's name as a filter takes it: as it is, or in brackets, which shells leave alone."""
    if re.fullmatch(_WORD, field) and field.lower() not in _KEYWORDS:
        return field
    around = next((pair for pair in ("[]", "``") if pair[1] not in field), None)
    return f"{around[0]}{field}{around[1]}" if around else '"' + field.replace('"', '""') + '"'


def _unquoted(name: str) -> str:
    if len(name) > 2 and name[0] + name[-1] in ("[]", "``"):
        return name[1:-1]
    return name[1:-1].replace('""', '"') if len(name) > 2 and name[0] == name[-1] == '"' else name


def parse_filter(expression: str) -> Filter:
    """Parse a filter; which fields exist is not checked yet.

    Raises:
        FilterError: the expression is malformed; the message points at the place.
    """
    if len(expression) > MAX_LENGTH:
        raise FilterError(
            f"The filter has {len(expression)} characters; at most {MAX_LENGTH} are read.", hint="Shorten it."
        )
    try:
        expression.encode()
    except UnicodeEncodeError:
        raise FilterError("The filter is not valid text.", hint="Write it in UTF-8.") from None
    expression = composed(expression)
    return Filter(expression, _Parser(expression).parse())


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted", "answer") or (self.kind == "string" and self.text[0] == '"')

    @property
    def is_operator(self) -> bool:
        return self.kind == "operator" or self.is_keyword(*_WORD_OPERATORS)

    def is_keyword(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


class _Parser:
    """Recursive descent, one method per level of binding."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = self._tokenise()
        self._index = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._alternatives()
        if self._next.kind != "end":
            raise self._unexpected("`and`, `or` or the end (text and dates go in quotes)")
        return node

    def _tokenise(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self._expression, position)
            if match is None or match.lastgroup is None:
                rest = self._expression[position:]
                position += len(rest) - len(rest.lstrip())
                unclosed = self._expression[position] in "'\"`["
                raise self._error(
                    "A quote is not closed (inside a text it is doubled)." if unclosed else "This is not understood.",
                    position,
                )
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            position = match.end()
        return tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._index]

    def _takes(self, word: str) -> bool:
        """Go past the next token, and say so, where it is a keyword or a mark."""
        taken = self._next.is_keyword(word) or (self._next.kind == "punctuation" and self._next.text == word)
        self._index += taken
        return taken

    def _require(self, mark: str, wanted: str) -> None:
        if not self._takes(mark):
            raise self._unexpected(wanted)

    def _alternatives(self) -> Node:
        return self._joined("or", self._conjunction)

    def _conjunction(self) -> Node:
        return self._joined("and", self._factor)

    def _joined(self, word: str, part: Callable[[], Node]) -> Node:
        nodes = [part()]
        while self._takes(word):
            nodes.append(part())
        return nodes[0] if len(nodes) == 1 else FilterGroup(word.upper(), tuple(nodes))

    def _factor(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"The filter nests deeper than {MAX_DEPTH} levels.", self._next.position)
        node: Node
        if self._takes("not"):
            node = Not(self._factor())
        elif self._takes("("):
            node = self._alternatives()
            self._require(")", "`)`")
        else:
            node = self._comparison()
        self._depth -= 1
        return node

    def _comparison(self) -> Comparison:
        field = self._next
        if not field.is_name or field.is_keyword(*_KEYWORDS):
            raise self._unexpected("a field name (one that is also a keyword goes in brackets: [in])")
        self._index += 1
        operator = self._next
        if not operator.is_operator:
            raise self._unexpected("one of = != < <= > >= in has contains", self._name_of_words(field))
        self._index += 1
        name = _SPELLINGS.get(operator.text, operator.text.lower())
        start = self._next.position
        values = self._list() if name == "in" else (self._operand(name),)
        written = self._expression[start : self._next.position].strip()
        return Comparison(field.text, name, values, field.position, written)

    def _name_of_words(self, first: _Token) -> str:
        """Explain how a name of several words is written, where what follows a field looks like one."""
        end = self._index
        while self._tokens[end].kind in ("word", "number") and not self._tokens[end].is_operator:
            end += 1
        if end == self._index or not self._tokens[end].is_operator:
            return ""
        name = self._expression[first.position : self._tokens[end].position].strip()
        return f"A name with spaces goes in brackets: {spelled(name)}."

    def _list(self) -> tuple[Value, ...]:
        self._require("(", "`(` and a list of values")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._require(")", "`,` or `)`")
        return tuple(values)

    def _operand(self, operator: str) -> Value:
        position = self._next.position
        value = self._value()
        if operator == "contains" and not isinstance(value, str):
            raise self._error("`contains` wants a text in quotes.", position)
        if operator in ("<", "<=", ">", ">=") and (value is None or isinstance(value, bool)):
            raise self._error("true, false and null have no order: use = or !=.", position)
        return value

    def _value(self) -> Value:
        token = self._next
        value: Value
        if token.kind == "string":
            value = token.text[1:-1].replace(token.text[0] * 2, token.text[0])
        elif token.kind == "number":
            value = self._number(token)
        elif token.is_keyword(*_CONSTANTS):
            value = _CONSTANTS[token.text.lower()]
        else:
            raise self._unexpected("a value (text and dates go in quotes: date >= '2025-01-31')")
        self._index += 1
        return value

    def _number(self, token: _Token) -> int | float:
        if re.fullmatch(r"[+-]?\d+", token.text):
            return int(token.text)
        number = float(token.text)
        if not math.isfinite(number):
            raise self._error("This number is too large.", token.position)
        return number

    def _unexpected(self, wanted: str, hint: str = "") -> FilterError:
        actual = "the filter ends" if self._next.kind == "end" else f"there is {self._next.text!r}"
        return self._error(f"Expected {wanted}, but {actual} here.", self._next.position, hint)

    def _error(self, problem: str, position: int, hint: str = "") -> FilterError:
        return filter_error(problem, self._expression, position, hint)


def filter_error(problem: str, expression: str, position: int, hint: str) -> FilterError:
    """Return the error of a problem in a filter, which shows the expression around a position and points at it."""
    start = max(0, position - 60)
    shown = re.sub(r"\s", " ", expression[start : position + 40])
    return FilterError(f"{problem}\n  {shown}\n  {' ' * (position - start)}^", hint=f"\n{hint}" if hint else "")
