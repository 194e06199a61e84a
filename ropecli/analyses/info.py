"""Versions of the installation, and how its kernels run."""

from __future__ import annotations

import contextlib
import platform
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from ropecli._version import __version__
from ropecli.kernels import abel
from ropecli.kernels.cache import cache_folder, refusal
from ropecli.kernels.jit import thread_count, threading_layer
from ropecli.plugins import plugins
from ropecli.results import Result
from ropecli.rotary.types import ALIASES, ROPE_TYPES

#: Packages whose versions decide results or speed, then the optional ones.
PACKAGES = (
    "numpy",
    "numba",
    "llvmlite",
    "ml_dtypes",
    "mpmath",
    "typer",
    "rich",
    "matplotlib",
    "zarr",
    "h5py",
    "pyarrow",
    "torch",
    "dask",
    "distributed",
)

#: Array files, by the library that reads them, where it is not always there.
FORMATS = {
    ".npy": "numpy",
    ".npz": "numpy",
    ".safetensors": "numpy",
    ".bin": "numpy",
    ".raw": "numpy",
    ".dat": "numpy",
    ".zarr": "zarr",
    ".h5": "h5py",
    ".hdf5": "h5py",
    ".parquet": "pyarrow",
    ".pt": "torch",
    ".pth": "torch",
}


BUILT_IN = {
    "rope_type": {*ROPE_TYPES, *ALIASES},
    "format": {suffix.removeprefix(".") for suffix in FORMATS},
    "lint_rule": set[str](),
}


@dataclass(frozen=True, kw_only=True)
class Info(Result):
    """Versions, threads, threading layer, cache folder, file formats."""

    versions: dict[str, str]  #: Versions of ropecli, Python and installed packages.
    threads: int  #: Threads that a kernel uses.
    threading_layer: str  #: omp, tbb or workqueue.
    cache_dir: str | None  #: Folder of compiled kernels; None where they are not kept,
    cache_refusal: str  #: and why; "" where they are.
    formats: tuple[str, ...]  #: Array files that can be read and written.
    plugins: tuple[str, ...]  #: Entry points of other packages; those that are not used say so.


def info() -> Info:
    """Return the state of this installation; runs one small kernel to learn the threading layer."""
    versions = {"ropecli": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    abel.fill_steps(np.ones(1), 1.0, np.empty((1, 1)), np.empty((1, 1)))
    cache = cache_folder()
    return Info(
        versions=versions,
        threads=thread_count(),
        threading_layer=threading_layer(),
        cache_dir=None if cache is None else str(cache),
        cache_refusal=refusal(),
        formats=tuple(suffix for suffix, name in FORMATS.items() if name in versions),
        plugins=tuple(
            f"{plugin}: not used, {name} is built in" if name in built_in else str(plugin)
            for kind, built_in in BUILT_IN.items()
            for name, plugin in plugins(kind).items()
        ),
    )
