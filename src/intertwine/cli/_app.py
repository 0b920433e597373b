"""The command line program: its top level, its errors and its exit codes."""

# Adding a command is one file in this folder, with a function `register` that is called with the program:
#
#     # cli/_order.py
#     from __future__ import annotations
#
#     from typing import Annotated
#
#     import typer
#
#
#     def register(app: typer.Typer) -> None:
#         """Add this command to the program."""
#         app.command()(order)
#
#
#     def order(group: Annotated[str, typer.Option(help="Name of a group, such as D4.")]) -> None:
#         """Print the order of a group."""
#         from .. import groups  # here, not above: the program answers --help without importing torch
#
#         typer.echo(groups.parse(group).order)
#
# Every file is imported to build the help text, therefore anything heavy is imported inside the command function.
# A file without `register` is a helper of the commands. Wrong input is raised as an IntertwineError, which this
# file turns into one line; a check that ran and failed is `raise typer.Exit(CHECK_FAILED)`.

from __future__ import annotations

import pkgutil
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import IntertwineError

CHECK_FAILED = 1
BAD_INPUT = 2

_WELCOME = """\
intertwine {version}: impose, relax, learn and measure symmetry in neural networks.
A layer maps one field type to another; a field type is a homogeneous space with a representation.

{commands}

Start   intertwine kernels --group D4 --subgroup C2 --in trivial --out regular
Help    intertwine --help, intertwine COMMAND --help
Python  import intertwine as tw
Exit    0 fine, 1 a check failed, 2 wrong usage or input (one line; --debug before the command shows the trace)"""


class _Program(TyperGroup):
    """The one place where an error becomes a line on stderr and an exit code."""

    # The context class moved between typer releases, and nothing but its parameters is used here.
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except IntertwineError as error:
            _explain(str(error), debug=ctx.params.get("debug", False))
        except OSError as error:
            if error.filename is None:  # not about a file that somebody named: a broken pipe, or a defect
                raise
            _explain(f"{error.filename}: {error.strerror}", debug=ctx.params.get("debug", False))
        raise typer.Exit(BAD_INPUT)


def _explain(message: str, *, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
    typer.echo(" ".join(message.split()), err=True)


def program() -> typer.Typer:
    """Build the program with every command found in this folder."""
    app = typer.Typer(
        name="intertwine",
        cls=_Program,
        add_completion=True,
        rich_markup_mode=None,  # plain help: the same text on a terminal, in a pipe and in a log
        pretty_exceptions_enable=False,  # a defect shows Python's own trace
    )
    app.callback(invoke_without_command=True)(_start)
    package = __name__.rpartition(".")[0]
    for module in sorted(info.name for info in pkgutil.iter_modules(sys.modules[package].__path__)):
        if module != "_app":
            register = getattr(import_module(f"{package}.{module}"), "register", None)
            if register is not None:
                register(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"intertwine {__version__}")
        raise typer.Exit


def _start(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="INTERTWINE_DEBUG", help="Show the trace of an error.")
    ] = False,
) -> None:
    """Impose, relax, learn and measure symmetry in neural networks."""
    if ctx.invoked_subcommand is None:
        commands: dict[str, Any] = ctx.command.commands  # type: ignore[attr-defined]  # the command is a _Program
        lines = [f"  {name:<10}  {commands[name].get_short_help_str(96)}" for name in sorted(commands)]
        typer.echo(_WELCOME.format(version=__version__, commands="\n".join(lines)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program on ``arguments``, by default those of the process, and leave with its exit code.

    Raises:
        SystemExit: always. The code is 0 when all is well, 1 when a check failed, 2 on wrong usage or input.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    program()(args=arguments, prog_name="intertwine")
