"""What doors offer of the options of a dataclass (`core.options`), in the form that each door's library wants.

A form is derived where a door is defined, so an option that is added to the dataclass is in every door. Doors name what
they leave out because they fill it in themselves. Typer and pydantic are loaded by the doors that are made with them.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, make_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, cast

from retriever.core.options import Option, options_of

T = TypeVar("T")
Model = TypeVar("Model", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


def public(kind: type, leave_out: Collection[str] = ()) -> list[Option]:
    """Return the options of a kind that a door offers."""
    return [one for one in options_of(kind) if one.public and one.name not in leave_out]


def made(kind: Callable[..., T], given: Mapping[str, object], **changes: object) -> T:
    """Return a value of a kind from what came through a door; an empty text is none.

    Args:
        kind: the dataclass.
        given: the values of its options, and perhaps more.
        changes: options that the door fills in itself.
    """
    values = {one.name: given[one.name] for one in options_of(kind) if one.name in given}  # type: ignore[arg-type]
    return kind(**{name: None if value == "" else value for name, value in {**values, **changes}.items()})


def command_options(
    kind: type, *, argument: str | None = None, leave_out: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Give a command with ``**options`` those of a kind as Typer reads them; one of them may be its argument."""
    import typer

    def annotated(one: Option) -> Any:  # noqa: ANN401 - an annotation
        if one.name == argument:
            return Annotated[one.type, typer.Argument(help=one.help)]
        names = [f"-{one.name}"] if len(one.name) == 1 else [f"--{one.name}"] if one.type is bool else []
        return Annotated[one.type, typer.Option(*names, help=one.help)]

    found = public(kind, leave_out)
    return _with_signature(_parameter(one.name, annotated(one), one.default) for one in found)


def tool_arguments(
    kind: type, *, most: Mapping[str, int], leave_out: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Give a tool with ``**options`` those of a kind as the SDK of MCP reads them.

    Agents send an empty text for none, and a type that is a text or null puts ``anyOf`` into a schema: such an option
    is a text, empty at first, which `made` turns into None.

    Args:
        kind: the dataclass.
        most: the largest number of an option, by name.
        leave_out: options that the tool fills in itself.
    """

    def parameter(one: Option) -> inspect.Parameter:
        bounds = {"le": most[one.name]} if one.name in most else {}
        return _parameter(one.name, Annotated[one.plain_type, _field(one, **bounds)], one.plain_default)

    return _with_signature(map(parameter, public(kind, leave_out)))


def model_fields(kind: type, *, leave_out: Collection[str] = ()) -> Callable[[Model], Model]:
    """Give a pydantic model the options of a kind as fields."""

    def decorate(model: Model) -> Model:
        from pydantic import create_model

        found = {one.name: (Annotated[one.type, _field(one)], one.default) for one in public(kind, leave_out)}
        return create_model(model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **found)  # type: ignore[call-overload, no-any-return]

    return decorate


def state_of(
    name: str,
    kind: type,
    *,
    check: Callable[[Any], None],
    renamed: Mapping[str, str],
    leave_out: Collection[str] = (),
) -> type[Any]:
    """Make a frozen dataclass of a kind's options for widgets, which know no None: an empty text stands for it.

    Args:
        name: of the dataclass.
        kind: whose options are taken.
        check: brings a new value into its bounds.
        renamed: what an option is called here, by its name; its own name where it is not among these.
        leave_out: options that the page fills in itself.
    """
    found = [
        (renamed.get(one.name, one.name), one.plain_type, field(default=one.plain_default))
        for one in public(kind, leave_out)
    ]
    return make_dataclass(name, found, frozen=True, slots=True, namespace={"__post_init__": check})


def keywords(kind: type, *, leave_out: Collection[str] = ()) -> Callable[[Function], Function]:
    """Give a function with ``**options`` those of a kind as keyword parameters; it refuses all others."""
    derived = _with_signature(_parameter(one.name, one.type, one.default) for one in public(kind, leave_out))

    def decorate(function: Function) -> Function:
        signature = inspect.signature(derived(function))

        @wraps(function)
        def call(*args: object, **options: object) -> object:
            signature.bind(*args, **options)
            return function(*args, **options)

        return cast("Function", call)

    return decorate


def _field(one: Option, **bounds: int) -> Any:  # noqa: ANN401 - pydantic's
    from pydantic import Field

    given: dict[str, Any] = {"ge": one.least, "max_length": one.longest, **bounds}
    return Field(description=one.help, **{name: value for name, value in given.items() if value is not None})


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_signature(parameters: Iterable[inspect.Parameter]) -> Callable[[Function], Function]:
    """Put parameters in the place of a function's ``**options`` in its signature."""
    derived = list(parameters)

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        kept = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        positional = [one for one in kept if one.kind is not inspect.Parameter.KEYWORD_ONLY]
        named = [one for one in kept if one.kind is inspect.Parameter.KEYWORD_ONLY]
        function.__signature__ = own.replace(parameters=[*positional, *derived, *named])  # type: ignore[attr-defined]
        return function

    return decorate
