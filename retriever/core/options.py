"""Options: fields of a frozen dataclass that hold their documentation and bounds, for every door that offers them.

`retriever.forms` makes of them what command line, server and other libraries want.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from types import NoneType
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")

_OPTION = "option"


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a dataclass as a form needs it.

    Attributes:
        name: the field's.
        type: what it holds; ``X | None`` where it may be left out.
        default: its value where it is left out.
        help: a sentence that says what it means.
        least: smallest number; None for any.
        longest: most characters; None for any.
        public: whether doors offer it; otherwise it is for programs in Python.
        advanced: whether a command's help leaves it to docs/cli.md.
    """

    name: str
    type: Any
    default: Any
    help: str
    least: int | None
    longest: int | None
    public: bool
    advanced: bool

    @property
    def plain_type(self) -> Any:  # noqa: ANN401 - a type
        """The value it holds where there is no None: a text, a number or a list in place of one or None."""
        known = [part for part in get_args(self.type) if part is not NoneType]
        return known[0] if self.optional and len(known) == 1 else self.type

    @property
    def optional(self) -> bool:
        """Whether it may be None."""
        return NoneType in get_args(self.type)

    @property
    def plain_default(self) -> Any:  # noqa: ANN401 - of the type
        """Its default of that type: an empty text, 0 or an empty list stands for None."""
        return (get_origin(self.plain_type) or self.plain_type)() if self.default is None else self.default


def option(
    default: Any,  # noqa: ANN401 - of the field's type
    help: str,
    *,
    least: int | None = None,
    longest: int | None = None,
    public: bool = True,
    advanced: bool = False,
) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Declare a field of a dataclass as an option; arguments as the attributes of `Option`."""
    metadata = {"help": help, "least": least, "longest": longest, "public": public, "advanced": advanced}
    return field(default=default, metadata={_OPTION: metadata})


_KNOWN: dict[type, Sequence[Option]] = {}  # options by kind


def options_of(kind: type) -> Sequence[Option]:
    """Return the options of a dataclass in the order of its fields."""
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        _KNOWN[kind] = [
            Option(declared.name, hints[declared.name], declared.default, **declared.metadata[_OPTION])
            for declared in fields(kind)
            if _OPTION in declared.metadata
        ]
    return _KNOWN[kind]


def takes_options(
    kind: Callable[P, R],
) -> Callable[[Callable[[S, R], T]], Callable[Concatenate[S, P], T]]:
    """Make a method that takes a value of a kind into one that takes what the kind is made of."""

    def decorate(method: Callable[[S, R], T]) -> Callable[Concatenate[S, P], T]:
        @wraps(method)
        def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
            return method(self, kind(*args, **options))

        own = inspect.signature(method)
        me = next(iter(own.parameters.values()))
        signature = own.replace(parameters=[me, *inspect.signature(kind).parameters.values()])
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate
