"""The list of commands, and the only place that catches exceptions in general.

Nothing heavy is imported here: `--help` must not load NumPy, Numba or Matplotlib, so each command
imports what it needs when it runs.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import re
import sys
import traceback
from difflib import get_close_matches
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from ropecli._version import __version__
from ropecli.cli import interrupts
from ropecli.cli.command import GroupedCommands, SectionedCommand
from ropecli.cli.parameters import OPTION_OF
from ropecli.cli.project import defaults
from ropecli.errors import ArgumentError, RopecliError

#: Commands by what they are for. Each is the function of that name in the module of that name,
#: with "_" for "-".
GROUPS = {
    "Check code": ("check", "trace", "identify", "vectors"),
    "Check a model": ("inspect", "lint", "diff", "report"),
    "Extend a context": ("frequencies", "base-bound", "scale", "precision"),
    "Positions and caches": ("positions", "cache"),
    "Work on files": ("encode", "permute"),
    "Study encodings": ("decay", "scores", "rotate", "linear", "usage", "construct"),
    "This installation": ("verify", "info"),
}
COMMANDS = tuple(chain.from_iterable(GROUPS.values()))

#: Names by which people look for an option, and that of the commands that have it.
GUESSES = {
    "--column": "--tensor",
    "--config": "--model",
    "--context-length": "--context",
    "--from": "--original",
    "--head-dim": "--dim",
    "--plot": "--output",
    "--rope-theta": "--base",
    "--stack": "--as",
    "--stacks": "--as",
    "--strict": "--fail-on",
    "--theta": "--base",
    "--to": "--context",
}
#: What people look for that is no option of any command, and where it is.
ELSEWHERE = {"--threads": "NUMBA_NUM_THREADS=N in the environment sets the threads"}
#: Commands of old versions, and what they are now.
RENAMED = {
    "bound": "decay --q --k",
    "chunks": "usage",
    "coverage": "frequencies",
    "similarity": "decay --encoding sinusoidal",
    "table": "frequencies",
}
#: Options of old versions, by command, and what to do instead.
DROPPED = {
    ("decay", "--axes"): "multiply vectors of ones that ropecli.rotate has turned",
    ("encode", "--resume"): "repeat the command, whose output is whole or not there",
    ("lint", "--output-format"): "--json, --github, --sarif FILE or --junit FILE",
    (
        "verify",
        "--encoding",
    ): "ropecli check FILE.py:FUNCTION --encoding NAME checks your code of it",
    ("linear", "--cost"): "time both forms on the machine that will run them",
}

EXIT_REFUSED = 2
EXIT_BUG = 101
NEAR = 0.62  #: Similarity of options that are offered for one that does not exist.

EXAMPLES = """\b
Examples:
  ropecli check kernels.py:rope              is this implementation right?
  ropecli identify before.npy after.npy      which RoPE is this?
  ropecli lint config.json                   is a model's configuration right?
  ropecli encode input.npy                   rotate an embedding file
  ropecli decay --dim 128 --max-dist 512     RoFormer's Figure 2
  ropecli verify --dim 64                    do the laws hold?

Analyse and verify positional encodings of transformers, rotary position embedding (RoPE) first.
"""
CLOSING = """\b
Options of a command:  ropecli help COMMAND
Documentation:         docs/index.md in the source tree, a page per command
Exit codes:            0 fine; 1 a check failed or a finding is an error;
                       2 wrong usage or a file that can't be read;
                       101 a bug in ropecli; 130, 143, 129 ended by Ctrl-C,
                       SIGTERM or SIGHUP
Environment:           NO_COLOR, FORCE_COLOR, COLUMNS; NUMBA_NUM_THREADS;
                       NUMBA_CACHE_DIR for compiled kernels;
                       ROPECLI_DEBUG=1 for the traceback of a bug
"""


@cache  # for messages that name an option, and for the next run in this process
def build(names: tuple[str, ...] = (*COMMANDS,), *, to_list: bool = False) -> Any:
    """Return the command line with some of the commands, whose modules are imported."""
    app = typer.Typer(
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(cls=GroupedCommands, help=EXAMPLES, epilog=CLOSING)(_root)
    for name in names:
        function = _stand_in if to_list else _function(name)
        text = _help_in_source(name) if to_list else function.__doc__ or ""
        about = " ".join(text.rpartition("\n\n")[2].split())
        summary = re.split(r"\.(?= [A-Z]|$)", about)[0]
        app.command(
            name=name,
            cls=SectionedCommand,
            help=text,
            short_help=summary,
            rich_help_panel=next(group for group in GROUPS if name in GROUPS[group]),
        )(function)
    return get_command(app)


def _function(name: str) -> Any:
    module = name.replace("-", "_")
    return getattr(importlib.import_module(f"ropecli.cli.{module}"), module)


def _stand_in() -> None:
    """Take the place of a command that is not run."""


def _help_in_source(name: str) -> str:
    """Return the docstring of a command; all modules would take longer than the rest of --help."""
    module = name.replace("-", "_")
    source = (pkgutil.get_data("ropecli.cli", f"{module}.py") or b"").decode()
    return source.partition(f"\ndef {module}(")[2].split('"""')[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ropecli {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "-V", "--version", help="Show the version.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Take the options in front of a command."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code: 0, 1, 2, 101, 129, 130 or 143."""
    if "_ROPECLI_COMPLETE" in os.environ:  # the shell asks for completions
        build()(prog_name="ropecli")
    if isinstance(sys.stdout, io.TextIOWrapper):  # with escapes for what it can't show
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(words or ["--help"]))


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    if sys.stdout is None:
        return _refuse("stdout is closed", EXIT_REFUSED)
    code = 0
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
    except RopecliError as error:
        return _refuse(error.spell(partial(option_of, arguments[0])), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _refuse(*interrupts.end())
    except BrokenPipeError:
        pass  # the reader has gone, as with `| head`: not an error
    except Exception as error:
        if interrupts.was_interrupted():  # by an exception that an import or a callback made of it
            return _refuse(*interrupts.end())
        return _explain(error)
    finally:
        _discard_unwritten()
    return code


def _discard_unwritten() -> None:
    """Give up what can't be written; Python would try again at its exit, and end with 120."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def _invoke(arguments: list[str]) -> int:
    """Run as Typer's own main does, without its exits on an interrupt and on a closed pipe."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if arguments[:1] == ["version"]:
        arguments = ["--version", *arguments[1:]]
    if arguments and arguments[0] in RENAMED:
        raise ArgumentError(f"'{arguments[0]}' is now '{RENAMED[arguments[0]]}'")
    try:
        command = _build_for(arguments)
        name = arguments[0] if arguments else ""
        configured, notes = defaults(name, command.commands.get(name))
        for note in () if {"-q", "--quiet"} & {*arguments} else notes:
            _say(f"note: {note}")
        with command.make_context(
            "ropecli", list(arguments), default_map={name: configured} if configured else None
        ) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return 0


def _build_for(arguments: list[str]) -> Any:
    """Return the command line with the one command that is given, or else with all."""
    if arguments and arguments[0] in COMMANDS:
        return build((arguments[0],))
    return build(to_list=not {*arguments} & {*COMMANDS})


def _explain(error: Exception) -> int:
    """Report a user's mistake or the machine's limits in one line; anything else as a bug."""
    if hasattr(error, "format_message"):  # Typer's own complaints have it
        return _refuse(_usage(error), EXIT_REFUSED)
    if isinstance(error, MemoryError):
        return _refuse("out of memory", EXIT_REFUSED)
    if isinstance(error, OSError):
        return _refuse(f"{error.filename or 'output'}: {error.strerror or error}", EXIT_REFUSED)
    if os.environ.get("ROPECLI_DEBUG") == "1":
        traceback.print_exc()
    return _refuse(
        f"this is a bug in ropecli {__version__}: {type(error).__name__}: {error}. "
        "Please report it with the command that led here; ROPECLI_DEBUG=1 shows the traceback.",
        EXIT_BUG,
    )


def option_of(command: str, parameter: str) -> str:
    """Return the option of a command that stands for a parameter of the library."""
    found = _build_for([command]).commands.get(command)
    options = {} if found is None else {p.name: p.opts[-1] for p in found.params}
    return str(options.get(parameter) or options.get(OPTION_OF.get(parameter)) or parameter)


def _usage(error: Any) -> str:
    """Return Typer's message with the value that was given, or with the help page to read."""
    if getattr(error, "possibilities", None):  # Typer also counts the dashes, which all have
        bare = {possibility.lstrip("-"): possibility for possibility in error.possibilities}
        near = get_close_matches(error.option_name.lstrip("-"), bare, cutoff=NEAR)
        error.possibilities = [bare[option] for option in near]
    if hasattr(error, "possibilities") and error.ctx is not None:
        instead = DROPPED.get((error.ctx.info_name, error.option_name))
        if instead is not None:
            return f"{error.ctx.info_name} has no {error.option_name} any more: {instead}"
        if error.option_name in ELSEWHERE:
            name = error.ctx.info_name
            return f"{name} has no {error.option_name}: {ELSEWHERE[error.option_name]}"
        known = {name for parameter in error.ctx.command.params for name in parameter.opts}
        guess = GUESSES.get(error.option_name)
        error.possibilities = [guess] if guess in known else error.possibilities
    message = str(error.format_message()).rstrip(".")
    details = getattr(error.__cause__, "errors", None)
    if details is not None:
        return f"{message}, got {details()[0]['input']!r}"
    if getattr(error, "ctx", None) is not None and ", got " not in message:
        return f"{message}; see {error.ctx.command_path} --help"
    return message


def _refuse(message: str, code: int) -> int:
    """Print the error, and return the exit code."""
    _say(f"error: {message}")
    return code


def _say(message: str) -> None:
    """Print one line to stderr, with escapes for control characters, as in a file's name."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    with contextlib.suppress(OSError):  # stderr may be full or gone; the exit code still says it
        typer.echo(line, err=True)
