"""The command line: parse, call, render.

Nothing is imported here that takes time: `main` must handle Ctrl-C before anything else.
"""

from __future__ import annotations

import gc
import os
from typing import NoReturn

TYPE_CHECKING = False

#: Objects that are made between two garbage collections. Modules make hundreds of thousands that
#: stay; collecting after every 700 takes a sixth of the time in which a command starts.
_COLLECTION_THRESHOLD = 50_000


def main() -> NoReturn:
    """Run the command line of this process."""
    try:
        from ropecli.cli import interrupts

        interrupts.exit_at_once_from_now_on()
    except KeyboardInterrupt:
        os.write(2, b"error: interrupted\n")
        os._exit(130)
    _occupy_closed_streams()
    # Threads of GNU OpenMP and OpenBLAS spin while they wait, and keep others from shared cores;
    # OpenBLAS's for 2^28 cycles after NumPy is imported, a tenth of a second.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    gc.set_threshold(_COLLECTION_THRESHOLD)
    from ropecli import reads
    from ropecli.cli import app, working_folder

    working_folder.ignore_settings()
    reads.note_what_is_read()
    with interrupts.raised_as_exceptions():
        app.main()


def _occupy_closed_streams() -> None:
    """Keep files that are opened later from getting the number of a closed standard stream.

    Messages of a library to stderr would end up in such a file. The number is given to a stream
    that can still be neither read nor written.
    """
    for number, wrong_way in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, wrong_way)  # takes the lowest number that is free
