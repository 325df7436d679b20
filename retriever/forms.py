"""The options of a dataclass (`core.options`) in the form that each door's library wants.

A form is derived where a door is defined, so an option that is added to the dataclass is in every door. Doors name what
they leave out because they fill it in themselves. Typer and pydantic are loaded by the doors that are made with them.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, make_dataclass
from typing import Annotated, Any, TypeVar

from retriever.core.options import Option, options_of

T = TypeVar("T")
Model = TypeVar("Model", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


def public(kind: type, leave_out: Collection[str] = ()) -> list[Option]:
    """Return the options of a kind that a door offers."""
    return [option for option in options_of(kind) if option.public and option.name not in leave_out]


def made(kind: Callable[..., T], given: Mapping[str, object], **changes: object) -> T:
    """Return a value of a kind from what came through a door, which fills in ``changes`` itself.

    An empty text or list stands for None, and so does 0 where the option has to be more.
    """
    options = {option.name: option for option in options_of(kind)}  # type: ignore[arg-type]
    values = {**{name: given[name] for name in options if name in given}, **changes}
    none = [name for name, value in values.items() if name not in options or options[name].optional]
    none = [name for name in none if values[name] in ("", []) or _too_little(options.get(name), values[name])]
    return kind(**{**values, **dict.fromkeys(none)})


def _too_little(option: Option | None, value: object) -> bool:
    return value == 0 and option is not None and (option.least or 0) > 0


def command_options(
    kind: type, *, argument: str | None = None, leave_out: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Give a command with ``**options`` those of a kind as Typer reads them; one of them may be its argument."""
    import typer

    def annotated(option: Option) -> Any:  # noqa: ANN401 - an annotation
        if option.name == argument:
            return Annotated[option.type, typer.Argument(help=option.help)]
        names = [f"-{option.name}"] if len(option.name) == 1 else [_switch(option)] if option.type is bool else []
        number = _number_from(option.least) if option.optional and option.plain_type is int else None
        shown = "<number>" if number else None
        return Annotated[
            option.type,
            typer.Option(*names, help=option.help, hidden=option.advanced, parser=number, metavar=shown),
        ]

    options = public(kind, leave_out)
    return _with_signature(_parameter(option.name, annotated(option), option.default) for option in options)


def _number_from(least: int | None) -> Callable[[str], int | None]:
    """Return what reads the number that an option gives; None for auto, as where it is left out."""
    import typer

    def number(given: str) -> int | None:
        if given == "auto":
            return None
        if not given.removeprefix("-").isdecimal():
            raise typer.BadParameter(f"{given!r} is no number.")
        if least is not None and int(given) < least:
            raise typer.BadParameter(f"{given} is not {least} or more.")
        return int(given)

    return number


def _switch(option: Option) -> str:
    """Return the name of an option that is on or off, and of one that is on by default the name that puts it off."""
    name = option.name.replace("_", "-")
    return f"--{name}/--no-{name}" if option.default else f"--{name}"


def tool_arguments(
    kind: type, *, most: Mapping[str, int], leave_out: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Give a tool with ``**options`` those of a kind as the SDK of MCP reads them.

    Agents send an empty text for none, and a type that may be null puts ``anyOf`` into a schema: such an option is a
    text, a number or a list, empty or 0 at first, which `made` turns into None.

    Args:
        kind: the dataclass.
        most: the largest number of an option, by name.
        leave_out: options that the tool fills in itself.
    """

    def parameter(option: Option) -> inspect.Parameter:
        bounds = {"le": most[option.name]} if option.name in most else {}
        bounds |= {"ge": 0} if option.optional and option.least else {}  # 0 stands for None
        return _parameter(option.name, Annotated[option.plain_type, _field(option, **bounds)], option.plain_default)

    return _with_signature(map(parameter, public(kind, leave_out)))


def model_fields(kind: type, *, leave_out: Collection[str] = ()) -> Callable[[Model], Model]:
    """Give a pydantic model the options of a kind as fields."""

    def decorate(model: Model) -> Model:
        from pydantic import create_model

        extra = {
            option.name: (Annotated[option.type, _field(option)], option.default) for option in public(kind, leave_out)
        }
        return create_model(model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **extra)  # type: ignore[call-overload, no-any-return]

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
    fields = [
        (renamed.get(option.name, option.name), option.plain_type, field(default=option.plain_default))
        for option in public(kind, leave_out)
    ]
    return make_dataclass(name, fields, frozen=True, slots=True, namespace={"__post_init__": check})


def keywords(kind: type, *, leave_out: Collection[str] = ()) -> Callable[[Function], Function]:
    """Give a function with ``**options`` those of a kind as keyword parameters in its signature."""
    options = public(kind, leave_out)
    return _with_signature(_parameter(option.name, option.type, option.default) for option in options)


def _field(option: Option, **bounds: int) -> Any:  # noqa: ANN401 - pydantic's
    from pydantic import Field

    given: dict[str, Any] = {"ge": option.least, "max_length": option.longest, **bounds}
    return Field(description=option.help, **{name: value for name, value in given.items() if value is not None})


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_signature(parameters: Iterable[inspect.Parameter]) -> Callable[[Function], Function]:
    """Put parameters in the place of a function's ``**options`` in its signature."""
    derived = list(parameters)

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        kept = [
            parameter for parameter in own.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        positional = [parameter for parameter in kept if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
        named = [parameter for parameter in kept if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        function.__signature__ = own.replace(parameters=[*positional, *derived, *named])  # type: ignore[attr-defined]
        return function

    return decorate
