"""Files of each format, as the library to which the format belongs writes and reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from ropecli import Rotary, rotate

Array = NDArray[Any]
Arrays = Mapping[str, Array]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: Every dtype that is rotated, in both byte orders.
DTYPES = [np.dtype(name) for name in ("<f8", ">f8", "<f4", ">f4", "<f2", ">f2")] + [BFLOAT16]
NATIVE = [dtype for dtype in DTYPES if dtype.isnative]


def native(array: Array) -> Array:
    """Return an array in native byte order."""
    return array.astype(array.dtype.newbyteorder("="))


def rotate_heads(x: Array, rope: Rotary, *, axis: int = -2, **options: Any) -> Array:
    """Return what a file of heads side by side should become, in native byte order."""
    heads = native(x).reshape(*x.shape[:-1], -1 if x.size else 1, rope.head_dim)
    moved = np.moveaxis(heads, axis % x.ndim, -2)
    turned = np.moveaxis(rotate(moved, rope, **options), -2, axis % x.ndim)
    return np.ascontiguousarray(turned.reshape(x.shape))


def save_npz(path: Path, arrays: Arrays) -> Path:
    """Save arrays by any name."""
    np.savez(path, **dict[str, Any](arrays))
    return path


def write_zarr(path: Path, arrays: Arrays, **options: Any) -> Path:
    """Write a store; of one array without a name if that is all there is."""
    if list(arrays) == [""]:
        zarr.create_array(path, data=arrays[""], **options)
        return path
    group = zarr.open_group(path, mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array, **options)
    return path


def read_zarr(path: Path, name: str = "") -> Array:
    array: Array = np.asarray(zarr.open_array(path, path=name, mode="r")[:])
    return array


def write_hdf5(path: Path, arrays: Arrays, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **options)
    return path


def read_hdf5(path: Path, name: str) -> Array:
    with h5py.File(path, "r") as file:
        array: Array = file[name][:]
    return array


def vectors(array: Array) -> Any:
    """Return rows as Arrow has them."""
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def write_parquet(path: Path, columns: Mapping[str, Any], **options: Any) -> Path:
    arrays = {k: vectors(v) if isinstance(v, np.ndarray) else v for k, v in columns.items()}
    pq.write_table(pa.table(arrays), path, **options)
    return path


def read_parquet(path: Path, name: str) -> Array:
    column = pq.read_table(path, columns=[name])[name].combine_chunks()
    array: Array = column.flatten().to_numpy()
    return array.reshape(-1, column.type.list_size)


def _save_npy(path: Path, arrays: Arrays) -> Path:
    (array,) = arrays.values()
    np.save(path, array)
    return path


def _read_npy(path: Path, _: str) -> Array:
    array: Array = np.load(path)
    return array


def read_npz(path: Path, name: str) -> Array:
    with np.load(path) as file:
        array: Array = file[name]
    return array


def _save_safetensors(path: Path, arrays: Arrays) -> Path:
    save_file(dict(arrays), path)
    return path


def _read_safetensors(path: Path, name: str) -> Array:
    array: Array = load_file(path)[name]
    return array


def _write_raw(path: Path, arrays: Arrays) -> Path:
    (array,) = arrays.values()
    path.write_bytes(array.tobytes())
    return path


def _in_chunks(write: Callable[..., Path]) -> Callable[[Path, Arrays], Path]:
    """Write arrays in chunks that end within a vector, and do not divide the array."""

    def write_chunks(path: Path, arrays: Arrays) -> Path:
        shape = next(iter(arrays.values())).shape
        bits = {name: x.view(void) if x.dtype == BFLOAT16 else x for name, x in arrays.items()}
        return write(path, bits, chunks=tuple(max(1, n // 3) for n in shape))

    void = "u2" if write is write_zarr else "V2"  # bfloat16 is in neither
    return write_chunks


def _save_torch(path: Path, arrays: Arrays) -> Path:
    import torch

    tensors = {
        name: torch.from_numpy(x.view("i2")).view(torch.bfloat16)
        if x.dtype == BFLOAT16
        else torch.from_numpy(x)
        for name, x in arrays.items()
    }
    torch.save(tensors, path)
    return path


def _read_torch(path: Path, name: str) -> Array:
    import torch

    found = torch.load(path, weights_only=True)
    tensor = found if isinstance(found, torch.Tensor) else found[name]
    bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    array: Array = bits.numpy()
    return array


class FileFormat(NamedTuple):
    """A format, and how others write and read its files."""

    suffix: str
    write: Callable[[Path, Arrays], Path]
    read: Callable[[Path, str], Array]
    dtypes: list[np.dtype[Any]] = DTYPES
    named: bool = True  #: Whether it holds several arrays, by name.
    library: str = ""  #: Which is needed to write it, and not always installed.

    def save(self, folder: Path, arrays: Arrays) -> Path:
        """Write a file x of arrays."""
        return self.write(folder / f"x{self.suffix}", arrays)

    def load(self, path: Path, like: Array, name: str = "q") -> Array:
        """Return an array in native byte order; `like` has what a file without a header lacks."""
        if self.suffix == ".bin":
            return native(np.fromfile(path, like.dtype).reshape(like.shape))
        array = native(self.read(path, name))
        return array.view(BFLOAT16) if like.dtype == BFLOAT16 else array

    def options(self, array: Array) -> dict[str, Any]:
        """Return the options that `encode_file` needs for a file of such arrays."""
        if self.suffix == ".bin":
            order = ">" if array.dtype.byteorder == ">" else ""
            name = f"{order}{array.dtype.newbyteorder('=').name}"
            return {"shape": array.shape, "dtype": name}
        silent = self.suffix in {".npy", ".npz", ".h5", ".zarr"}
        return {"dtype": "bfloat16"} if silent and array.dtype == BFLOAT16 else {}


FORMATS = [
    FileFormat(".npy", _save_npy, _read_npy, named=False),
    FileFormat(".npz", save_npz, read_npz),
    FileFormat(".safetensors", _save_safetensors, _read_safetensors, NATIVE),
    FileFormat(".bin", _write_raw, _read_npy, named=False),
    FileFormat(".zarr", _in_chunks(write_zarr), read_zarr, library="zarr"),
    FileFormat(".h5", _in_chunks(write_hdf5), read_hdf5, library="h5py"),
    FileFormat(".parquet", write_parquet, read_parquet, NATIVE[:3], library="pyarrow.parquet"),
    FileFormat(".pt", _save_torch, _read_torch, NATIVE, library="torch"),
]


def each_format(*left_out: str, **needs: object) -> pytest.MarkDecorator:
    """Parametrise a test over formats that have these fields, without those left out."""
    found = [each for each in FORMATS if each.suffix not in left_out]
    found = [each for each in found if all(getattr(each, k) == v for k, v in needs.items())]
    return pytest.mark.parametrize("kind", [as_parameter(each) for each in found])


def as_parameter(kind: FileFormat, *more: Any) -> Any:
    """Return a value of a parameter of tests."""
    marks = [pytest.mark.oracle] if kind.suffix == ".pt" else []
    name = "-".join(map(str, (kind.suffix, *more)))
    return pytest.param(kind, *more, marks=marks, id=name)
