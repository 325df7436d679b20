"""The `retriever` command: parses, calls one service, renders one result, and turns errors into exit codes.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 done with rows skipped, 4 index damaged, 130 interrupted.
"""

import gc
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import (
    answers,
    cluster,
    compare,
    eval,
    finetune,
    index,
    models,
    output,
    search,
    serve,
    teach,
    upkeep,
    views,
)
from retriever.cli.help import Command, Group
from retriever.core.errors import RetrieverError

INTERRUPTED = 130

app = typer.Typer(
    name="retriever",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from retriever.core.environment import own_version

        output.result(f"retriever {own_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print name and version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Instruction-aware vector search: one corpus, many questions."""


_PANELS: dict[str, dict[str, Callable[..., int | None]]] = {
    "Daily commands": {
        "index": index.index,
        "search": search.search,
        "cluster": cluster.cluster,
        "compare": compare.compare,
        "report": cluster.report,
        "teach": teach.teach,
        "app": serve.app,
    },
    "Index": {
        "status": views.status,
        "views": views.views,
        "answers": answers.answers,
        "diagnose": teach.diagnose,
        "delete": index.delete,
        "verify": upkeep.verify,
        "repair": upkeep.repair,
        "reembed": upkeep.reembed,
        "export": upkeep.export,
        "import": upkeep.import_,
    },
    "Models": {
        "embed": models.embed,
        "curate": finetune.curate,
        "finetune": finetune.finetune,
        "eval": eval.evaluate,
    },
    "Servers": {"serve": serve.serve, "mcp": serve.mcp},
}
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        app.command(_name, cls=Command, rich_help_panel=_panel)(_command)
app.add_typer(models.app, name="models", rich_help_panel="Models")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; RETRIEVER_DEBUG=1 lets exceptions through."""
    output.prepare()
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        result = app(args=list(args), prog_name="retriever", standalone_mode=False)
        output.flush()
        if result == INTERRUPTED:  # Typer turns a KeyboardInterrupt into this code
            raise KeyboardInterrupt
    except (BrokenPipeError, SystemExit) as error:
        return _left(error)
    except (typer.Abort, KeyboardInterrupt):
        output.say("Interrupted. Everything stored so far is kept; the same command continues.")
        return INTERRUPTED
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            output.say(error.format_message())
            return 2
        output.error(
            error.format_message() if hasattr(error, "format_message") else str(error),
            _behind_dashes(args, str(getattr(error, "option_name", ""))),
        )
        return int(getattr(error, "exit_code", 2))
    except RetrieverError as error:
        if os.environ.get("RETRIEVER_DEBUG"):
            raise
        return _tell(error)
    except Exception as error:
        if os.environ.get("RETRIEVER_DEBUG"):
            raise
        return _tell_unforeseen(error)
    return result if isinstance(result, int) else 0


def _behind_dashes(args: Sequence[str], unknown: str) -> str:
    """Return a hint where what was taken for an unknown option can be an argument, with the command that says so.

    It surely is none where it is two dashes and a word.
    """
    at = next((at for at, arg in enumerate(args) if unknown and arg.startswith(unknown)), None)
    if at is None or (args[at].startswith("--") and " " not in args[at]):
        return ""
    end = args.index("--") if "--" in args else len(args)
    before, behind = [*args[:at], *args[at + 1 : end]], [args[at], *args[end + 1 :]]
    command = shlex.join(["retriever", *before, "--", *behind])
    return f"Put -- before an argument that begins with a dash, and options before that: {command}"


def _left(error: BrokenPipeError | SystemExit) -> int:
    """Return the exit code after the reader (`| head`) has left, or after a server said itself why it cannot start."""
    # Typer answers a broken pipe with SystemExit; what is still to be written has nowhere to go.
    if isinstance(error, SystemExit) and error.code and not isinstance(error.__context__, BrokenPipeError):
        return error.code if isinstance(error.code, int) else 1
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")
    return 0


def _tell(error: RetrieverError) -> int:
    """Print an error of ours, and return its exit code."""
    if error.exit_code == INTERRUPTED:
        output.say(f"{error.message}\n{error.hint}".rstrip())
    else:
        output.error(error.message, error.hint)
    return error.exit_code


def _tell_unforeseen(error: Exception) -> int:
    """Print an error that no part of the program foresaw, of the operating system or of ours; return the exit code."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        output.error(
            f"The operating system reports: {error.strerror}{where}.",
            "Check disk space and permissions. RETRIEVER_DEBUG=1 shows more.",
        )
    else:
        output.error(f"Unexpected {type(error).__name__}: {error}", "RETRIEVER_DEBUG=1 shows where; please report it.")
    return 1


def run() -> None:
    """Entry point of the installed command."""
    # Importing torch and transformers makes a great many objects that stay; looking for garbage among them again and
    # again takes a fifth of the time to the first answer.
    gc.set_threshold(100_000, 20, 100)
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    # Everything is closed by now; taking torch's modules apart one by one would cost another second.
    os._exit(code)
