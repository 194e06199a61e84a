"""The command line: parse, call, render."""

import gc
import os
import sys
from typing import NoReturn

#: Objects that are made before garbage is looked for. Modules make hundreds of thousands that
#: stay; to look through them every 700 takes a sixth of the time in which a command starts.
_LOOKED_THROUGH = 50_000


def main() -> NoReturn:
    """Run the command line of this process."""
    _occupy_closed_streams()
    # GNU OpenMP's threads spin while they wait; where cores are shared, all but they stand still.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.set_threshold(_LOOKED_THROUGH)
    try:
        from ropecli.cli.app import main as run_and_exit
    except KeyboardInterrupt:  # while Typer was being loaded
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run_and_exit()


def _occupy_closed_streams() -> None:
    """Let no file that is opened later get the number of a standard stream that was closed.

    What a library says on stderr would go into it. The number leads to where neither reading nor
    writing works, as before.
    """
    for number, wrong_way in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, wrong_way)  # takes the lowest number that is free
