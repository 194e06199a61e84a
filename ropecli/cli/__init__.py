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
    # GNU OpenMP's threads spin while they wait; where cores are shared, all but they stand still.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.set_threshold(_LOOKED_THROUGH)
    try:
        from ropecli.cli.app import main as run_and_exit
    except KeyboardInterrupt:  # while Typer was being loaded
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run_and_exit()
