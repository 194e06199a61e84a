"""Inputs and outputs of ONNX's RotaryEmbedding, opset 23.

The tables are inputs of the operator, so its output is the exact one of the tables as stored in
each dtype; they are those of real angles, so that norms and relative positions hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ropecli.checks.vectors.case import Case, round_to, sample
from ropecli.checks.vectors.recipes import HEAD_DIM, HEADS, LAYOUTS, POSITIONS
from ropecli.reference import frequencies
from ropecli.reference.rotation import cos_sin, elementwise, pairs_of

#: Roundings: two products 1, sum 1, stored output 1, and 1 for the products of these errors.
OPERATOR_ROUNDINGS = 4
#: Dtypes that the operator takes.
OPERATOR_DTYPES = ("float32", "float16", "bfloat16")
BATCH = 2
#: The positions of the rows of the tables: the first by their numbers, then long ones.
ROWS = (*range(24), *POSITIONS[4:])
#: Rows by number: in order, backwards, repeated, not from 0, and long positions.
POSITION_IDS = ((0, 1, 2, 3, 7, 23, 26), (29, 28, 27, 5, 5, 4, 25))


def operator_cases(random: np.random.Generator) -> Iterator[Case]:
    """Yield both layouts, whole and half heads, with heads as an axis and side by side."""
    for layout in LAYOUTS:
        for rotary_dim in (HEAD_DIM, HEAD_DIM // 2):
            part = "" if rotary_dim == HEAD_DIM else "_partial"
            yield _operator_case(
                f"onnx{part}-{layout}", layout, rotary_dim, random, side_by_side=False
            )
        yield _operator_case(f"onnx_3d-{layout}", layout, HEAD_DIM, random, side_by_side=True)


def _operator_case(
    name: str, layout: str, rotary_dim: int, random: np.random.Generator, *, side_by_side: bool
) -> Case:
    ids = np.array(POSITION_IDS)
    shape = (BATCH, HEADS, ids.shape[1], HEAD_DIM)
    x = sample(random, shape)
    inv_freq = np.array([float(f) for f in frequencies.default(dim=rotary_dim, base=10_000.0)])
    tables = cos_sin(np.array(ROWS, dtype=np.float64), inv_freq)
    arrays: dict[str, NDArray[Any]] = {
        "x": _heads_side_by_side(x) if side_by_side else x,
        "position_ids": ids,
        "row_positions": np.array(ROWS),
        "inv_freq": inv_freq,
    }
    for dtype in OPERATOR_DTYPES:
        stored = [round_to(table, dtype) for table in tables]
        arrays[f"cos_cache.{dtype}"], arrays[f"sin_cache.{dtype}"] = stored
        y = round_to(_operator(x, ids, *stored, layout=layout), dtype)
        arrays[f"y.{dtype}"] = _heads_side_by_side(y) if side_by_side else y
    facts = {
        "attributes": {
            "interleaved": int(layout == "interleaved"),
            "num_heads": HEADS if side_by_side else 0,
            "rotary_embedding_dim": 0 if rotary_dim == HEAD_DIM else rotary_dim,
        },
        "head_dim": HEAD_DIM,
        "roundings": OPERATOR_ROUNDINGS,
    }
    return Case(name=name, kind="onnx", facts=facts, arrays=arrays)


def _operator(
    x: NDArray[np.float64],
    ids: NDArray[np.int64],
    cosine: NDArray[Any],
    sine: NDArray[Any],
    *,
    layout: str,
) -> NDArray[Any]:
    """Apply the operator in 40 digits to the tables as stored."""
    pairs = pairs_of(layout, 2 * cosine.shape[1])
    exact = [np.vectorize(mpf, otypes=[object])(t.astype(np.float64)) for t in (cosine, sine)]
    return np.array(
        [
            [elementwise(head, exact[0][rows], exact[1][rows], pairs) for head in heads]
            for heads, rows in zip(x, ids, strict=True)
        ]
    )


def _heads_side_by_side(x: NDArray[Any]) -> NDArray[Any]:
    """Return (batch, heads, sequence, head_dim) with the heads side by side on the last axis."""
    batch, heads, sequence, head_dim = x.shape
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(batch, sequence, heads * head_dim)
