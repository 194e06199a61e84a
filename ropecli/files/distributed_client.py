"""The connection to a scheduler of Dask's."""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from typing import TYPE_CHECKING, Any

from ropecli._version import __version__
from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARY = "distributed"
CONNECT_SECONDS = 5.0  #: Until a scheduler is taken for absent.
_CERTIFICATES = ", ".join(
    f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
)


@contextlib.contextmanager
def client_at(address: str) -> Iterator[Any]:
    """A client of Dask's, which logs nothing.

    Args:
        address: Of the scheduler.

    Raises:
        FileError: Nobody is there, or somebody has another ropecli.
    """
    library = importlib.import_module(LIBRARY)  # whose loggers are there from now on
    with _SILENCE:
        client = _connected(library, address)
        try:
            _check_versions(client, address)
            yield client
        finally:
            client.close(timeout=2)


def _connected(library: Any, address: str) -> Any:
    try:
        security = library.Security()
        found = security.get_connection_args("client")
        if address.startswith("tls:") and found["ssl_context"] is None:
            msg = f"{address} needs certificates: set {_CERTIFICATES}"
            raise FileError(msg)
        return library.Client(
            address, security=security, timeout=CONNECT_SECONDS, set_as_default=False
        )
    except FileError:
        raise
    # What is wrong with an address or a certificate is said in many ways.
    except Exception as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> FileError:
    why = " ".join(str(error).split()) or type(error).__name__
    return FileError(f"cannot reach a scheduler at {address}: {why}")


def _check_versions(client: Any, address: str) -> None:
    """Refuse a scheduler or a worker that would do something else."""
    try:
        found = client.get_versions(packages=["ropecli"])
    # What it raises without a connection has no common base below Exception.
    except Exception as error:
        raise _unreachable(address, error) from None
    members = {f"the scheduler at {address}": found["scheduler"]}
    members |= {f"the worker at {name}": each for name, each in found["workers"].items()}
    for name, versions in members.items():
        version = ((versions or {}).get("packages") or {}).get("ropecli")
        if version != __version__:
            has = "no ropecli" if version is None else f"ropecli {version}"
            msg = f"{name} has {has}; needed is {__version__}, as here"
            raise FileError(msg)


class _Silence:
    """Keeps Dask from logging what is said in one line here, as long as anybody speaks to it.

    Levels are of the whole process, whose threads may each rotate a file.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._levels: dict[logging.Logger, int] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            names = [name for name in list(logging.root.manager.loggerDict) if _is_dask(name)]
            for logger in set(map(logging.getLogger, names)) - self._levels.keys():
                self._levels[logger] = logger.level
                logger.setLevel(logging.CRITICAL + 1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                for logger, level in self._levels.items():
                    logger.setLevel(level)
                self._levels.clear()


def _is_dask(name: str) -> bool:
    return name.partition(".")[0] == LIBRARY


_SILENCE = _Silence()
