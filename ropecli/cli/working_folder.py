"""Matplotlib takes no settings from the working folder, whoever put them there.

On import it looks for a matplotlibrc in the working folder first, so it is imported from the folder
that holds its own. Numba's file is read where it is the user's (`kernels.settings`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "matplotlib"
FOLDER = "mpl-data"  #: Of its own settings, in the package.


class ImportElsewhere:
    """Finds Matplotlib, and imports it in its own folder.

    It has what a `MetaPathFinder` needs; to import that class takes a tenth of `--help`.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how Matplotlib is imported, and None for all other modules."""
        spec = PathFinder.find_spec(name, path, target) if name == NAME else None
        if spec is None or spec.loader is None or spec.origin is None:
            return None
        loader: Any = spec.loader
        folder = Path(spec.origin).parent / FOLDER
        run = loader.exec_module

        def run_elsewhere(module: ModuleType) -> None:
            with _in_folder(folder):
                run(module)

        loader.exec_module = run_elsewhere
        return spec


def ignore_settings() -> None:
    """Let Matplotlib, which is not imported yet, read no settings of the working folder."""
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
