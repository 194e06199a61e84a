"""Precision policies: the dtype of each stage of a rotary encoding."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ropecli.arrays import DTYPES, Array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import meant, one_of
from ropecli.rotary import Rotary

#: Dtypes of a stage by name. float8_e4m3fn has no infinity: beyond 448 it has NaN.
STAGE_DTYPES = DTYPES | {
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
STAGES = ("positions", "frequencies", "angles", "tables", "data")
#: Policies by name, and their stages that are not float64.
PRESETS = {
    **{dtype: dict.fromkeys(STAGES, dtype) for dtype in DTYPES},
    "mixed-bf16": dict.fromkeys(STAGES[:3], "float32") | dict.fromkeys(STAGES[3:], "bfloat16"),
    "mixed-fp16": dict.fromkeys(STAGES[:3], "float32") | dict.fromkeys(STAGES[3:], "float16"),
    "bf16-autocast": dict.fromkeys(STAGES[:3], "bfloat16") | {"tables": "float32"},
    "bf16-positions": {"positions": "bfloat16"},
    "fp16-positions": {"positions": "float16"},
    "bf16-inv-freq": {"frequencies": "bfloat16"},
    "fp16-inv-freq": {"frequencies": "float16"},
    "bf16-tables": {"tables": "bfloat16"},
    "fp16-tables": {"tables": "float16"},
    "fp8-data": {"data": "float8_e4m3fn"},
}
#: Presets that are shown unless others are asked for.
USUAL = (
    "float32",
    "mixed-bf16",
    "fp8-data",
    "bf16-inv-freq",
    "fp16-inv-freq",
    "bf16-positions",
    "bfloat16",
    "float16",
)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The dtype of each stage of a rotary encoding; each stage rounds its result once.

    Raises:
        ArgumentError: A dtype that is not one of `STAGE_DTYPES`.
    """

    name: str  #: Name in tables and figures.
    positions: str = "float64"  #: Positions m.
    frequencies: str = "float64"  #: Inverse frequencies.
    angles: str = "float64"  #: Products of position and frequency.
    tables: str = "float64"  #: cos and sin, times the attention factor.
    data: str = "float64"  #: Vectors before and after rotation.

    def __post_init__(self) -> None:
        for stage, dtype in self.dtypes.items():
            one_of(f"dtype of {stage}", dtype, STAGE_DTYPES)

    @classmethod
    def parse(cls, text: Any) -> Policy:
        """Return the policy of a preset, of STAGE=DTYPE words, or of a preset and such words.

        Stages that are not named are float64, so that only the others show.

        Args:
            text: Words joined by commas, such as "bf16-positions,data=float16".

        Raises:
            ArgumentError: Not a preset, a stage or a dtype.
            ArgumentTypeError: Not a string.
        """
        if not isinstance(text, str):
            raise ArgumentTypeError(
                f"policy must be a string or a Policy, got {type(text).__name__}"
            )
        policy = cls(name=text)
        for index, word in enumerate(text.split(",")):
            stage, equals, dtype = word.partition("=")
            if equals and stage in STAGES:
                policy = replace(policy, **{stage: dtype})
            elif not equals and index == 0 and word in PRESETS:
                policy = cls(name=text, **PRESETS[word])
            else:
                raise ArgumentError(
                    f"policy must be one of {', '.join(PRESETS)}, or STAGE=DTYPE with a stage "
                    f"from {', '.join(STAGES)}, got {word!r}{meant(word, PRESETS)}"
                )
        return policy

    @property
    def dtypes(self) -> dict[str, str]:
        """Dtype of each stage by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)[1:]}

    @property
    def first_collision(self) -> int:
        """First position that its dtype makes the number of an earlier one: 2^digits + 1."""
        return (1 << _Limits.of(self.positions).digits) + 1

    def angles_of(self, rope: Rotary, positions: Array) -> Array:
        """Return the angles that this policy computes, (..., pairs), in radians.

        Args:
            rope: The encoding.
            positions: Any shape, the same on all axes of the encoding.
        """
        m = rounded(positions, self.positions)
        with np.errstate(invalid="ignore"):  # a position of inf times a frequency of 0
            product = np.multiply.outer(m, rounded(rope.diagonal_inv_freq, self.frequencies))
        return rounded(product, self.angles)

    def tables_of(self, rope: Rotary, positions: Array) -> tuple[Array, Array]:
        """Return cos and sin, times the attention factor, (..., pairs) each.

        Args:
            rope: The encoding.
            positions: Any shape, the same on all axes of the encoding.
        """
        angle = self.angles_of(rope, positions)
        with np.errstate(invalid="ignore"):  # of an infinite angle they are NaN
            cos, sin = rope.attention_factor * np.cos(angle), rope.attention_factor * np.sin(angle)
        return rounded(cos, self.tables), rounded(sin, self.tables)

    def rotate(self, rope: Rotary, x: Array, positions: Array) -> Array:
        """Return vectors rotated as this policy does it, (..., head_dim), as float64.

        Sums of products are exact, and rounded once to the dtype of the data, as in a kernel that
        computes in a wider dtype.

        Args:
            rope: The encoding; of xPos, only its rotation.
            x: Vectors, (..., head_dim).
            positions: Their positions, (...).
        """
        cos, sin = self.tables_of(rope, positions)
        if rope.direction == "reversed":
            sin = -sin
        read = np.broadcast_to(rounded(x, self.data), (*cos.shape[:-1], rope.head_dim))
        first, second = (read[..., member] for member in rope.pairs_in.T)
        out = read.copy()
        out[..., rope.pairs_out[:, 0]] = first * cos - second * sin
        out[..., rope.pairs_out[:, 1]] = first * sin + second * cos
        return rounded(out, self.data)


class _Limits(NamedTuple):
    digits: int  #: Binary digits of the significand, the leading one among them.
    normal: float  #: Smallest normal number.
    largest: float  #: Largest number.

    @classmethod
    def of(cls, dtype: str) -> _Limits:
        info = ml_dtypes.finfo(STAGE_DTYPES[dtype])  # type: ignore[no-untyped-call]
        return cls(int(info.nmant) + 1, float(info.smallest_normal), float(info.max))


def rounding(dtype: str) -> Array:
    """Return a dtype as the three numbers that the kernels in `kernels.phase` take."""
    limits = _Limits.of(dtype)
    magic = 0.0 if dtype == "float64" else 1.5 * 2.0 ** (53 - limits.digits)
    return np.array([magic, limits.normal, limits.largest])


def rounded(values: Any, dtype: str) -> Array:
    """Round float64 numbers once to the nearest of a dtype, ties to even.

    A conversion by NumPy or ml_dtypes may round twice, on its way through float32. Numbers beyond
    all of the dtype become infinite.
    """
    array = np.asarray(values, dtype=np.float64)
    if dtype == "float64":
        return array
    limits = _Limits.of(dtype)
    with np.errstate(invalid="ignore"):
        exponent = np.maximum(np.frexp(array)[1], math.frexp(limits.normal)[1]) - limits.digits
        result: Array = np.ldexp(np.rint(np.ldexp(array, -exponent)), exponent)
    return np.where(np.abs(result) > limits.largest, np.copysign(np.inf, result), result)
