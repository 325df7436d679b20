"""Plain help: commands under headings, each with one line, and the names of options that docs/cli.md explains."""

from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

ADVANCED = "Advanced options, explained in docs/cli.md"
_LONGEST = 1000  # characters of a sentence; such a limit cuts none
_VALUES = {
    "<str>": "<text>",
    "<list[str]>": "<text>",
    "<list[path]>": "<path>",
    "<int>": "<number>",
    "<int range>": "<number>",
    "<float>": "<number>",
}
"""Words for the values that an option takes, by Typer's."""


class Command(TyperCommand):
    """A command whose help ends with the names of its advanced options."""

    @property
    def advanced(self) -> list[TyperOption]:
        """Options that few users need; docs/cli.md explains them."""
        return [param for param in self.params if isinstance(param, TyperOption) and param.hidden]

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the options, and the names of the advanced ones."""
        for param in self.params:
            shown = param.display_type(ctx) if isinstance(param, TyperOption) else ""
            param.display_type = partial(_value, _VALUES.get(shown, shown))  # type: ignore[attr-defined]
        super().format_options(ctx, formatter)
        if self.advanced:
            with formatter.section(ADVANCED):
                names, indent = ", ".join(option.opts[0] for option in self.advanced), " " * formatter.current_indent
                lines = fill(
                    names, formatter.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
                )
                formatter.write(f"{lines}\n")


def _value(shown: str | None, ctx: "Context") -> str | None:
    """Stand in for a parameter's `display_type`."""
    return shown


class Group(TyperGroup):
    """A group whose help lists its commands under the headings they were declared with."""

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write each command with the first sentence of its help, which is never cut."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.get_short_help_str(_LONGEST)))
        widest = max(map(len, self.commands))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(widest), summary) for name, summary in rows])
