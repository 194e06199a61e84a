"""No library takes settings from the working folder, whoever put them there.

Matplotlib reads a matplotlibrc and Numba a .numba_config.yaml when they are imported, the working
folder's first. Each is imported in a folder of its own, where it finds its defaults.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

#: The folders in which libraries are imported, below their packages.
FOLDERS = {"matplotlib": "mpl-data", "numba": "."}


class ImportElsewhere(MetaPathFinder):
    """Finds the libraries that read settings, and imports each in its own folder."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a library is imported, and None for all other modules."""
        spec = PathFinder.find_spec(name, path, target) if name in FOLDERS else None
        if spec is None or spec.loader is None or spec.origin is None:
            return None
        loader: Any = spec.loader
        folder = Path(spec.origin).parent / FOLDERS[name]
        run = loader.exec_module

        def run_elsewhere(module: ModuleType) -> None:
            with _in_folder(folder):
                run(module)

        loader.exec_module = run_elsewhere
        return spec


def ignore_settings() -> None:
    """Let no library that is imported from now on read settings of the working folder."""
    sys.meta_path.insert(0, ImportElsewhere())


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Work in another folder, if it is there and the way back is open."""
    try:
        here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    except OSError:  # the working folder is gone, and its settings with it
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        yield
    finally:
        os.fchdir(here)
        os.close(here)
