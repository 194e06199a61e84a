"""The command line: parse, call, render."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process."""
    # GNU OpenMP's threads spin while they wait; where cores are shared, all but they stand still.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from ropecli.cli.app import main as run_and_exit
    except KeyboardInterrupt:  # while Typer was being loaded
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run_and_exit()
