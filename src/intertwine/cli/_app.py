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
#         app.command(epilog="Example:  intertwine order --group D4")(order)
#
#
#     def order(group: Annotated[str, typer.Option(help="Name of a group, such as D4.")]) -> None:
#         """Print the order of a group."""
#         from .. import groups  # here, not above: the program answers --help without importing torch
#
#         typer.echo(groups.parse(group).order)
#
# Building the help text imports every file, so import anything heavy inside the command function. A file without
# `register` is shared by commands. For wrong input, raise an IntertwineError, which this file turns into one line; for
# a check that ran and failed, `raise typer.Exit(CHECK_FAILED)`. A test runs the examples in the epilogs, in order, in
# an empty folder.

from __future__ import annotations

import os
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
from ._stopping import STOPPED, stop

CHECK_FAILED = 1
BAD_INPUT = 2

_WELCOME = """\
intertwine {version}: impose, relax, learn, measure and discover symmetry in neural networks.

Start      intertwine kernels --group D4 --subgroup C2 --in trivial --out regular
Look       demo trains, relaxes, audits and symmetrizes small networks in minutes; explore opens an interactive page
Impose     train makes a network with a symmetry; kernels solves for equivariant kernels; theory checks known networks
Measure    discover finds symmetries of data; audit and symmetrize take a trained network; bench measures layers
Reproduce  experiment runs the tables of papers, published numbers next to ours; sweep searches settings
Help       list shows layers, models and datasets; COMMAND --help ends with an example; --install-completion
Python     import intertwine as tw
Exit code  0 success, 1 a check failed, 2 wrong usage or input (one line; --debug shows the traceback)"""

_EXIT_CODES = """\
\b
Exit codes:
  0  success
  1  a check ran and failed: a gate of audit, a row of theory, a job of experiment
  2  wrong usage or wrong input: one line that says what to do
  130  stopped by Ctrl-C
Anything else is a bug in this package and shows a Python traceback.

\b
Example:
  intertwine kernels --group D4 --subgroup C2 --in trivial --out regular
"""


class _Program(TyperGroup):
    """Turns errors into a line on stderr and an exit code."""

    # Any: the context class moved between typer releases, and only its parameters are used here.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--debug" in args:  # in any position: people add it at the end of the line that failed
            args = ["--debug", *(text for text in args if text != "--debug")]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _explain_usage(error)
        raise typer.Exit(BAD_INPUT)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            stop(interrupt)
        except IntertwineError as error:
            _explain(str(error), debug=ctx.params.get("debug", False))
        except OSError as error:
            if error.filename is None:  # not about a file that the user named: a broken pipe, or a bug
                raise
            _explain(f"{error.filename}: {error.strerror}", debug=ctx.params.get("debug", False))
        except Exception as error:
            _explain_usage(error)
        raise typer.Exit(BAD_INPUT)


def _explain_usage(error: Exception) -> None:
    """Print one line for wrong options and arguments; raise any other error again."""
    # Recognized by their attributes, because their class moved between typer releases.
    message, context = getattr(error, "format_message", None), getattr(error, "ctx", None)
    if message is None or context is None or type(error).__name__ == "NoArgsIsHelpError":  # this one prints the help
        raise error
    path, text = context.command_path, message()
    _explain(f"{path}: {text}{'' if text.endswith(('.', '?', '!')) else '.'} See '{path} --help'.", debug=False)


def _explain(message: str, *, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    plain = bool(os.environ.get("NO_COLOR"))  # see no-color.org; typer strips colors in a pipe
    typer.echo("error: " if plain else typer.style("error: ", fg="red", bold=True), nl=False, err=True)
    typer.echo(" ".join(message.split()), err=True)


def program() -> typer.Typer:
    """Build the program with every command in this folder."""
    app = typer.Typer(
        name="intertwine",
        cls=_Program,
        add_completion=True,
        rich_markup_mode=None,  # plain help: the same text in a terminal, a pipe and a log
        pretty_exceptions_enable=False,  # a bug shows a plain Python traceback
    )
    app.callback(invoke_without_command=True, epilog=_EXIT_CODES)(_start)
    package = __name__.rpartition(".")[0]
    for module in sorted(info.name for info in pkgutil.iter_modules(sys.modules[package].__path__)):
        if module != "_app":
            register = getattr(import_module(f"{package}.{module}"), "register", None)
            if register is not None:
                register(app)
    _keep_examples_whole(app)
    return app


def _keep_examples_whole(app: typer.Typer) -> None:
    """Show each example on one line, as written: a wrapped example could not be pasted."""
    for command in app.registered_commands:
        command.epilog = _pasteable(command.epilog)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.typer_instance.info.epilog = _pasteable(group.typer_instance.info.epilog)
            _keep_examples_whole(group.typer_instance)


def _pasteable(epilog: str | None) -> str | None:
    """``Example:  intertwine ...`` with each command on its own line."""
    if not isinstance(epilog, str) or not epilog.startswith("Example"):
        return epilog
    title, _, rest = epilog.partition(":")
    lines = [line.strip() for line in rest.strip().splitlines()]
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in lines)])


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"intertwine {__version__}")
        raise typer.Exit


def _start(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="INTERTWINE_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Impose, relax, learn and measure symmetry in neural networks."""
    if ctx.invoked_subcommand is None:
        typer.echo(_WELCOME.format(version=__version__))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program with ``arguments`` (default: those of the process) and exit with its exit code.

    Raises:
        SystemExit: always. The code is 0 for success, 1 if a check failed, 2 for wrong usage or input, 130
            after Ctrl-C.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    try:
        program()(args=arguments, prog_name="intertwine")
    except KeyboardInterrupt:  # while the commands were imported
        sys.exit(STOPPED)  # without a line: there is nothing to say yet
