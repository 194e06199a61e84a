"""Files of formats whose libraries not everybody has, written and read by these libraries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


def save_npz(path: Path, arrays: Arrays) -> None:
    """Save arrays by any name."""
    np.savez(path, **dict[str, Any](arrays))


def write_zarr(path: Path, arrays: Arrays, **options: Any) -> Path:
    """A store of zarr's own making; of one array without a name if that is all there is."""
    if list(arrays) == [""]:
        zarr.create_array(path, data=arrays[""], **options)
        return path
    group = zarr.open_group(path, mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array, **options)
    return path


def read_zarr(path: Path, name: str = "") -> NDArray[Any]:
    """An array of a store, as zarr reads it."""
    array: NDArray[Any] = np.asarray(zarr.open_array(path, path=name, mode="r")[:])
    return array


def write_hdf5(path: Path, arrays: Arrays, **options: Any) -> Path:
    """A file of h5py's own making."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **options)
    return path


def read_hdf5(path: Path, name: str) -> NDArray[Any]:
    """A dataset, as h5py reads it."""
    with h5py.File(path, "r") as file:
        array: NDArray[Any] = file[name][:]
    return array


def vectors(array: NDArray[Any]) -> Any:
    """Rows as Arrow has them."""
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def write_parquet(path: Path, columns: Mapping[str, Any], **options: Any) -> Path:
    """A file of pyarrow's own making."""
    arrays = {k: vectors(v) if isinstance(v, np.ndarray) else v for k, v in columns.items()}
    pq.write_table(pa.table(arrays), path, **options)
    return path


def read_parquet(path: Path, name: str) -> NDArray[Any]:
    """A column, as pyarrow reads it."""
    column = pq.read_table(path, columns=[name])[name].combine_chunks()
    array: NDArray[Any] = column.flatten().to_numpy()
    return array.reshape(-1, column.type.list_size)
