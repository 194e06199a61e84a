"""A process that runs an implementation for its parent: `python -m ...worker`, over pipes.

Messages are pickles: (method, arguments) in, (outcome, value) out. What the implementation prints
goes to stderr, from whatever language, so that it cannot disturb them.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

#: Set in a worker: code that is loaded there and calls `check` itself must not start another.
IN_WORKER = "ROPECLI_WORKER"
ANSWER, FAILED, UNSUPPORTED, REFUSED = "answer", "failed", "unsupported", "refused"


def main() -> None:
    """Serve one parent until it closes the pipe."""
    os.environ[IN_WORKER] = "1"
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    dump, load = pickle.dumps, pickle.load  # before foreign code can replace them
    served = _Served()
    while True:
        try:
            method, values = load(requests)
        except EOFError:
            os._exit(0)  # whatever threads and exit handlers foreign code has left
        answers.write(dump(served.answer(method, values), protocol=5))
        answers.flush()


class _Served:
    """The engine of this process, once it is loaded."""

    def __init__(self) -> None:
        self._engine: Any = None

    def answer(self, method: str, values: tuple[Any, ...]) -> tuple[str, Any]:
        """Return the outcome of a request: an answer, or what kind of error and its text."""
        from ropecli.checks.implementation.interface import (
            ImplementationError,
            Unsupported,
            WrongResult,
        )
        from ropecli.errors import RopecliError

        try:
            if method == "load":
                self._engine = values[0].engine()
                return ANSWER, None
            return ANSWER, getattr(self._engine, method)(*values)
        except Unsupported as error:
            return UNSUPPORTED, str(error)
        except ImplementationError as error:
            return FAILED, (type(error) is WrongResult, str(error))
        except RopecliError as error:
            return REFUSED, error
