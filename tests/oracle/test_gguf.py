"""Files that the `gguf` package writes, in both byte orders."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st

from ropecli.models.gguf import GgufFile, read_gguf
from ropecli.models.gguf.architectures import mode_of
from ropecli.models.gguf.settings import FREQS, LONG, SHORT, gguf_settings
from ropecli.models.stacks.llama_cpp import LLAMA_CPP

pytestmark = pytest.mark.oracle

ORDERS = pytest.mark.parametrize("order", ["<", ">"])


def writer(path: Path, name: str, order: str) -> Any:
    import gguf

    endian = gguf.GGUFEndian.LITTLE if order == "<" else gguf.GGUFEndian.BIG
    return gguf.GGUFWriter(path, name, endianess=endian)


def write_and_read(path: Path, out: Any) -> GgufFile:
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return read_gguf(path)


#: A method of the writer, and values that it takes.
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "add_uint8": st.integers(0, 2**8 - 1),
    "add_int8": st.integers(-(2**7), 2**7 - 1),
    "add_uint16": st.integers(0, 2**16 - 1),
    "add_int16": st.integers(-(2**15), 2**15 - 1),
    "add_uint32": st.integers(0, 2**32 - 1),
    "add_int32": st.integers(-(2**31), 2**31 - 1),
    "add_uint64": st.integers(0, 2**64 - 1),
    "add_int64": st.integers(-(2**63), 2**63 - 1),
    "add_float32": st.floats(width=32, allow_nan=False),
    "add_float64": st.floats(allow_nan=False),
    "add_bool": st.booleans(),
    "add_string": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    "add_array": st.one_of(
        st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20),
        st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20),
        st.lists(st.booleans(), min_size=1, max_size=20),
        st.lists(st.text("aß✓", max_size=5), min_size=1, max_size=20),
    ),
}
entries = st.lists(
    st.sampled_from(sorted(SCALARS)).flatmap(
        lambda method: st.tuples(st.just(method), SCALARS[method])
    ),
    max_size=12,
)


@ORDERS
@given(entries=entries)
def test_metadata(order: str, entries: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        out = writer(path, "llama", order)
        for i, (method, value) in enumerate(entries):
            getattr(out, method)(f"key.{i}", value)
        file = write_and_read(path, out)
    assert file.order == order
    expected = {f"key.{i}": _as_tuple(value) for i, (_, value) in enumerate(entries)}
    assert dict(file.metadata) == {"general.architecture": "llama", **expected}


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@ORDERS
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_tensors(tmp_path: Path, order: str, dtype: type[np.floating[Any]]) -> None:
    path = tmp_path / "x.gguf"
    values = {
        name: np.random.default_rng(i).random(7 + i).astype(dtype)
        for i, name in enumerate((FREQS, LONG, SHORT))
    }
    out = writer(path, "phi3", order)
    for name, array in values.items():
        out.add_tensor(name, array.copy())  # which it swaps in place
    file = write_and_read(path, out)
    for name, array in values.items():
        assert file.tensors[name].shape == array.shape
        assert_same_bits(name, got=file.tensor(name), expected=array.astype(np.float64))


def test_tensor_of_bfloat16(tmp_path: Path) -> None:
    import gguf
    import ml_dtypes

    array = np.random.default_rng(0).random(8).astype(ml_dtypes.bfloat16)
    out = writer(tmp_path / "x.gguf", "llama", "<")
    data = array.view(np.uint8)
    out.add_tensor(FREQS, data, raw_dtype=gguf.GGMLQuantizationType.BF16)
    got = write_and_read(tmp_path / "x.gguf", out).tensor(FREQS)
    assert_same_bits(FREQS, got=got, expected=array.astype(np.float64))


@ORDERS
def test_settings_by_the_writers_own_names_of_keys(tmp_path: Path, order: str) -> None:
    import gguf

    out = writer(tmp_path / "x.gguf", "grok", order)
    out.add_context_length(131_072)
    out.add_embedding_length(1_024)
    out.add_head_count(16)
    out.add_block_count(2)
    out.add_rope_dimension_count(32)
    out.add_rope_freq_base(500_000.0)
    out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    out.add_rope_scaling_factor(16.0)
    out.add_rope_scaling_orig_ctx_len(8_192)
    out.add_rope_scaling_attn_factors(0.5)
    out.add_rope_scaling_yarn_beta_fast(16.0)
    out.add_rope_scaling_yarn_beta_slow(2.0)
    (layer,) = gguf_settings(write_and_read(tmp_path / "x.gguf", out))
    got = LLAMA_CPP.rotary(layer, None)
    assert (got.head_dim, got.rotary_dim, got.base) == (64, 32, 500_000.0)
    assert layer.scaling["beta_fast"] == 16.0
    assert layer.scaling["beta_slow"] == 2.0
    # (0.1 ln 16 + 1) / 2
    assert got.attention_factor == pytest.approx(0.638629, abs=1e-6)
    assert (layer.context_length, layer.original_context_length) == (131_072, 8_192)


def test_every_architecture_of_the_package_is_in_the_table() -> None:
    import gguf

    names = set(gguf.MODEL_ARCH_NAMES.values()) - {"mmproj"}
    assert len(names) > 120
    assert [name for name in sorted(names) if mode_of(name) is None] == []
