"""The commands together, and the only place that catches.

Nothing heavy is imported here: `--help` must not load NumPy, Numba or Matplotlib, so each command
imports what it needs when it runs.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from ropecli._version import __version__
from ropecli.cli.decay import decay
from ropecli.cli.encode import encode
from ropecli.cli.info import info
from ropecli.cli.verify import verify
from ropecli.errors import RopecliError

EXIT_BUG = 101
EXIT_INTERRUPTED = 130

EXAMPLES = """\b
Examples:
  ropecli decay --dim 128 --max-dist 512     RoFormer's Figure 2
  ropecli verify --dim 64                    do the laws hold?
  ropecli encode input.npy                   rotate an embedding file

Analyse and verify positional encodings of transformers, rotary position embedding (RoPE) first.
"""

app = typer.Typer(
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ropecli {__version__}")
        raise typer.Exit


@app.callback(help=EXAMPLES)
def ropecli(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Hold the options that stand before a command."""


for command in (decay, verify, encode, info):
    text = command.__doc__ or ""
    app.command(help=text, short_help=text.strip().rpartition("\n\n")[2].split(". ")[0])(command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code: 0, 1, 2, 101 or 130."""
    words = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(words or ["--help"]))


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        code = get_command(app).main(arguments, prog_name="ropecli", standalone_mode=False)
        sys.stdout.flush()
    except RopecliError as error:
        return _refuse(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _refuse("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone, as with `| head`: no fault, and nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        return _explain(error)
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """A user's mistake or the machine's limits in one line; anything else is a bug."""
    usage = getattr(error, "format_message", None)  # Typer's own complaints have it
    if usage is not None:
        return _refuse(usage(), 2)
    if isinstance(error, MemoryError):
        return _refuse("out of memory", 2)
    if isinstance(error, OSError):
        return _refuse(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    return _confess(error)


def _refuse(message: str, code: int) -> int:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    return code


def _confess(error: Exception) -> int:
    if os.environ.get("ROPECLI_DEBUG") == "1":
        traceback.print_exc()
    typer.echo(
        f"error: this is a bug in ropecli {__version__}: {type(error).__name__}: {error}. "
        "Please report it with the command that led here; ROPECLI_DEBUG=1 shows the traceback.",
        err=True,
    )
    return EXIT_BUG
