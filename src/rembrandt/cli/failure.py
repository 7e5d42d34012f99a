"""Errors and warnings on the command line: one line on standard error, and an exit code for each
kind.

The code is 1 for an error, 2 for a command that cannot be parsed and 130 for an interruption.
"""

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rembrandt import memory
from rembrandt.cli.streams import discard_output
from rembrandt.declarations import SETTINGS
from rembrandt.errors import RembrandtError, RembrandtWarning

# Exit codes.
FAILED = 1
MISUSED = 2
INTERRUPTED = 130
# Parameters of the library whose options have another name.
ALIASES = {"ngram_range": "ngrams", "weighting": "hashed"}
ALIASES |= {setting.name: setting.flat_name for setting in SETTINGS if setting.option is not None}
# Parameters that lower the use of memory.
LOWERING = ("n_components", "n_random_features", "rows", "max_features")
_UsageError: Any = typer.BadParameter.__mro__[1]  # typer exports only this subclass


class _PlainFlags:
    """The help shows ``--force`` and not ``--force <bool>``."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            is_flag = getattr(param, "is_flag", False)
            if is_flag and param.metavar is None:
                param.metavar = ""
        return params


class Verb(_PlainFlags, TyperCommand):
    """A command whose errors and warnings name its own options, or those of ``fit``."""

    def invoke(self, ctx: Any) -> Any:
        fit_options = options_of(ctx.find_root().command.commands["fit"])
        elsewhere = {name: f"{option} of rembrandt fit" for name, option in fit_options.items()}
        with explained(elsewhere | options_of(self)):
            return super().invoke(ctx)


class Verbs(_PlainFlags, TyperGroup):
    """A group of commands whose usage errors are one line, however wide the terminal is."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _usage_errors():
            return super().invoke(ctx)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Print a command that cannot be parsed as one line, not in a box as wide as the terminal."""
    try:
        yield
    except _UsageError as error:
        message = error.format_message().replace("Value error, ", "")  # a prefix of typer's types
        command = error.ctx.command_path if error.ctx else "rembrandt"
        if message:  # else it was no command at all, and the help was printed
            typer.echo(f"error: {RembrandtError(message)}\nSee {command} --help.", err=True)
        raise typer.Exit(MISUSED) from error


def options_of(command: Any) -> dict[str, str]:
    """Return the options of a command by the names of the library's parameters."""
    options = {}
    for param in command.params:
        if param.param_type_name == "option":
            options[param.name] = param.opts[0]
    aliased = {name: options[alias] for name, alias in ALIASES.items() if alias in options}
    return options | aliased


@contextmanager
def explained(options: Mapping[str, str]) -> Iterator[None]:
    """Print errors and warnings as one line each. Unexpected errors keep their traceback."""
    show_otherwise: Any = warnings.showwarning

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        if isinstance(message, RembrandtWarning):
            line = with_options(str(message), message.parameters, options)
            typer.echo(f"warning: {line}", err=True)
        else:
            show_otherwise(message, *args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("default", RembrandtWarning)
        warnings.showwarning = show
        try:
            yield
            sys.stdout.flush()
        except RembrandtError as error:
            line = with_options(str(error), error.parameters, options)
            raise _exit(f"error: {line}", FAILED) from error
        except KeyboardInterrupt as error:
            raise _exit("interrupted; no incomplete output was left", INTERRUPTED) from error
        except BrokenPipeError as error:  # the reader of the output has closed it
            discard_output()
            raise typer.Exit(FAILED) from error
        except MemoryError as error:
            line = with_options(memory.ran_out(error), _lowering(options), options)
            raise _exit(f"error: {line}", FAILED) from error
        except OSError as error:
            if error.filename is None:
                # It may be about standard output, which would be written again at the end.
                discard_output()
            file = f"{error.filename}: " if error.filename else ""
            line = str(RembrandtError(f"{file}{error.strerror or error}"))
            raise _exit(f"error: {line}", FAILED) from error


def _lowering(options: Mapping[str, str]) -> list[str]:
    """Return the parameters that lower the use of memory and are options of this command, not of
    another.
    """
    names = []
    for name in LOWERING:
        option = options.get(name, "")
        if option.startswith("--") and " " not in option:
            names.append(name)
    return names


@contextmanager
def about(start: str) -> Iterator[None]:
    """Begin the message of errors of the library, which does not know the file, with ``start``."""
    try:
        yield
    except ValueError as error:
        raise RembrandtError(f"{start}: {error}", getattr(error, "parameters", ())) from error


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a missing package into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        remedy = f"pip install 'rembrandt[{extra}]'"
        raise RembrandtError(f"{missing.name} is not installed; this needs: {remedy}") from missing


def with_options(message: str, parameters: Iterable[str], options: Mapping[str, str]) -> str:
    """Append the options that set the parameters of a message, where this command has them."""
    named = [options[name] for name in parameters if name in options]
    if not named:
        return message
    noun = "option" if len(named) == 1 else "options"
    return f"{message} ({noun} {', '.join(named)})"


def _exit(message: str, code: int) -> typer.Exit:
    """Print a message; return the exception that ends the program."""
    typer.echo(message, err=True)
    return typer.Exit(code)
