"""Settings as frozen dataclasses whose values pydantic checks, and the numbers that they are made of."""

from dataclasses import fields
from functools import cache
from typing import Annotated, Any, TypeAlias, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from retriever.core.errors import UsageError

Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Dropout: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]
AtLeastTwo: TypeAlias = Annotated[int, Field(ge=2)]


class Settings:
    """Base of settings: a frozen dataclass whose every field must be as it is annotated, bounds included."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise a UsageError that names the first field with a wrong value."""
        kind: Any = type(self)
        for name, adapter in _adapters(kind).items():
            value = getattr(self, name)
            try:
                adapter.validate_python(value)
            except ValidationError as error:
                raise UsageError(problem(name, value, error)) from error


def problem(name: str, value: object, error: ValidationError) -> str:
    """Return in words why a value is wrong: "rank is 0; it should be greater than or equal to 1."."""
    return f"{name} is {repr(value)[:200]}; {error.errors()[0]['msg'].replace('Input', 'it', 1)}."


@cache
def _adapters(kind: Any) -> dict[str, TypeAdapter[Any]]:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: TypeAdapter(hints[field.name]) for field in fields(kind)}
