"""Encoders and vector backends that other packages bring, found by the entry points of their distributions.

Nothing of a package is imported before one of its plugins is asked for by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from retriever.core.errors import EncoderError, RetrieverError

Kind: TypeAlias = Literal["encoder", "vector backend"]

GROUPS: Mapping[Kind, str] = dict(zip(get_args(Kind), ("retriever.encoders", "retriever.backends"), strict=True))
"""The group of entry points of each kind of plugin."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part that an installed package brings.

    Attributes:
        kind: what it is.
        name: by which it is asked for.
        target: ``module:attribute``.
        package: name of the distribution.
        version: of the distribution.
    """

    kind: Kind
    name: str
    target: str
    package: str
    version: str

    @property
    def origin(self) -> str:
        """The package, for messages."""
        return f"the package {self.package} {self.version}"

    def load(self) -> Any:  # noqa: ANN401 - whatever the package has there
        """Import it and return the object.

        Raises:
            RetrieverError: the module cannot be imported or lacks the attribute; `EncoderError` of an encoder.
        """
        from importlib.metadata import EntryPoint

        try:
            return EntryPoint(self.name, self.target, GROUPS[self.kind]).load()
        except Exception as error:
            raise self.fault(f"cannot be imported ({type(error).__name__}: {error})") from error

    def fault(self, problem: str) -> RetrieverError:
        """Return the error of a plugin that does not do what it should."""
        error = EncoderError if self.kind == "encoder" else RetrieverError
        return error(
            f"The {self.kind} {self.name!r} of {self.origin} {problem}.",
            hint=f"Its entry point is {self.name} = {self.target!r} in {GROUPS[self.kind]}. Install a version of "
            f"{self.package} that works with this one of retriever, or `pip uninstall {self.package}`.",
        )


def plugins(kind: Kind) -> list[Plugin]:
    """Return all plugins of a kind that installed packages bring, by name; nothing of them is imported."""
    from importlib.metadata import entry_points  # which takes 0.1 s to import

    points = [(point, point.dist) for point in entry_points(group=GROUPS[kind])]
    named = [Plugin(kind, point.name, point.value, dist.name, dist.version) for point, dist in points if dist]
    return sorted(named, key=lambda plugin: (plugin.name, plugin.package))


def find_plugin(kind: Kind, name: str) -> Plugin | None:
    """Return the plugin of a kind and name; None where no package brings one.

    Raises:
        RetrieverError: several packages do; `EncoderError` of encoders.
    """
    named = [plugin for plugin in plugins(kind) if plugin.name == name]
    if len(named) > 1:
        origins = " and ".join(plugin.origin for plugin in named)
        error = EncoderError if kind == "encoder" else RetrieverError
        raise error(f"The {kind} {name!r} is brought by {origins}.", hint="Uninstall all of them but one.")
    return named[0] if named else None
