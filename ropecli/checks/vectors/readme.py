"""The README of a folder of golden vectors: all that a reader in another language needs."""

from __future__ import annotations

from collections.abc import Sequence

from ropecli._version import __version__
from ropecli.checks.vectors.case import GROWING_ROUNDINGS, ROUNDINGS, Case
from ropecli.checks.vectors.recipes import HEAD_DIM

_FORMATS = {
    "npy": """\
Each array is a file `CASE/ARRAY.npy`: ten bytes, a header, then the numbers in little-endian C
order. `.npy` has no name for bfloat16, so `y.bfloat16.npy` and the like hold its 16 bits as
unsigned integers: put them before 16 zero bits and read the 32 as float32.""",
    "safetensors": """\
Each case is a file `CASE.safetensors`, its arrays are tensors by name: eight bytes with the length
of the header, the header in JSON, then the numbers in little-endian C order.""",
    "bin": """\
Each array is a file `CASE/ARRAY.bin`: only the numbers, little-endian and in C order. Of float16
and bfloat16 it holds the 16 bits of each number; those of bfloat16, before 16 zero bits, are a
float32. `CASE/rope_case.h` is a C header for them: `ROPE_ARRAY_FILE` and `ROPE_ARRAY_COUNT` for
each array, as in `ROPE_Q_FLOAT32_FILE`, and the keys below, as in `ROPE_PAIRS_IN`. Sizes are
`ROPE_BATCH`, `ROPE_HEADS`, ..., and `ROPE_SIGN` is s of the formula.""",
    "json": """\
Each case is a file `CASE.json`, an object with nested lists of numbers. Numbers of float32, float16
and bfloat16 are written as float64, exactly: read as float64 and cast, nothing is rounded.""",
}
_ROTATIONS = f"""\
## Rotations (`kind` "rotation")

| array | shape | what |
| ----- | ----- | ---- |
| `positions` | (sequence,) or (sequence, axes), int64 | one position a row, or a point |
| `inv_freq` | (pairs,), float64 | radians per position of each pair |
| `x` | (heads, sequence, {HEAD_DIM}), float64 | vectors; every dtype holds them exactly, so cast |
| `y.DTYPE` | as `x` | the rotated vectors, rounded to float64, float32, float16, bfloat16 |

A position is one of all heads. `role` in `manifest.json` is "query", or "key": in xPos keys grow
the other way, and `growth` has that sign already.
"""
_QUERIES_AND_KEYS = """\
## Queries and keys (`kind` "qk")

| array | shape | what |
| ----- | ----- | ---- |
| `positions` | (length,) or (batch, length), axes last | int64; float64 if not all are whole |
| `inv_freq` | (pairs,), float64 | radians per position of each pair |
| `q.DTYPE` | (batch, heads, length, head_dim) | queries, which every dtype holds exactly |
| `k.DTYPE` | (batch, key_heads, length, head_dim) | keys, in their own number of heads |
| `q_rotated.DTYPE`, `k_rotated.DTYPE` | as `q`, `k` | y of the formula, where these are x |
| `cos.DTYPE`, `sin.DTYPE` | as `positions`, with (pairs) in place of axes | A cos t and A sin t |

`shape` in `manifest.json` has these sizes. Positions of shape (length,) are those of every
sequence. `growth` is that of queries; keys have the opposite sign.

`tolerance.DTYPE` is the largest tolerance (below) of any coordinate of the case, with e = 2^-53:
all others are smaller, so that |got - expected| may be compared with this one number.
`tolerance_float32_angles.DTYPE` is that of frequencies and angles computed in float32, by powers,
exponentials or from pair to pair: e = (7 + r + 2 max(r, i)) * 2^-24 with r = |ln(inv_freq[i])|, and
0 for a frequency of 1, which is exact. It is larger where a type such as llama3 mixes frequencies
by shares that follow from them, and for positions that float32 does not hold.
"""
_FORMULA = """\
## Formula

Besides the arrays, a case has in `manifest.json`:

| key | what |
| --- | ---- |
| `parameters` | rope type and its parameters by their names in config.json, layout, partial part |
| `pairs_in`, `pairs_out` | coordinates (a, b) that pair i is read from and written to |
| `axis` | the coordinate of a position that turns each pair; null where positions are numbers |
| `direction` | "forward", or "reversed": every angle is negated |
| `attention_factor` | multiplies cos and sin |
| `softmax_factor` | multiplies the score q.k, not y |
| `growth` | of xPos, else null: pair i at position m is multiplied by exp(m growth[i]) |
| `roundings` | see Tolerance |

With m the position of a row (`positions[row]`, or `positions[row][axis[i]]`), A the attention
factor and s = 1, or -1 where the direction is reversed, pair i gives

    t = s * m * inv_freq[i]
    (a, b), (c, d) = pairs_in[i], pairs_out[i]
    y[c] = A * (x[a] * cos(t) - x[b] * sin(t)) * exp(m * growth[i])
    y[d] = A * (x[a] * sin(t) + x[b] * cos(t)) * exp(m * growth[i])

without the last factor where `growth` is null. Coordinates in no pair are those of x. `inv_freq`,
`attention_factor` and `growth` are rounded to float64, and y is exact for them as they are given.

Interleaved pairs are (2i, 2i + 1) and half pairs (i, i + pairs), from the first rotated coordinate
on. A test should read `inv_freq` first and compare its own with it, then rotate: at position 2^31 a
frequency that is off in its last digit turns a pair by another angle.
"""
_TOLERANCE = f"""\
## Tolerance

Each `dtypes.DTYPE` of the manifest has a `unit` u, half the distance from 1 to the next number, and
a `floor`, four of the smallest numbers. One coordinate of a pair may be off by

    (roundings * u + e * |m| * (|inv_freq[i]| + |growth[i]|)) * A * hypot(x[a], x[b]) * g + floor

with g = exp(m growth[i]), or 1, and no growth where it is null. Coordinates in no pair are equal.

* `roundings` is {ROUNDINGS}: cos and sin right to an ulp (2), the attention factor (1) and its
  product (1), two products (1), their sum (1), the stored y (1), and their errors' products (1). By
  Cauchy and Schwarz each counts once for a pair: |x[a] cos| + |x[b] sin| <= hypot(x[a], x[b]).
  In xPos it is {GROWING_ROUNDINGS}: the exponential (2) and its product (1). Arithmetic in a wider
  dtype, rounded once at the end, is within it too.
* e is the relative error of the angle m * inv_freq[i]: 2^-53 where it is one product in float64 and
  2^-24 where in float32. Add that of your inv_freq, if you don't read it from here. Angles in
  float16 or bfloat16 have no tolerance here: they are wrong from position 2049 or 257 on.
"""
#: By kind: one case, several, and how to read them.
_KINDS = {
    "rotation": ("rotation", "rotations", f"{_ROTATIONS}\n{_FORMULA}"),
    "qk": ("case", "cases", f"{_QUERIES_AND_KEYS}\n{_FORMULA}"),
}


def readme(cases: Sequence[Case], format: str) -> str:
    """Return the text, in Markdown."""
    kinds_of_cases = [case.kind for case in cases]
    counts, sections = [], []
    for kind, (one, several, text) in _KINDS.items():
        if count := kinds_of_cases.count(kind):
            counts.append(f"{count} {one if count == 1 else several}")
            sections.append(text)
    return f"""\
# Golden vectors of rotary position embeddings

{" and ".join(counts)}, written by ropecli {__version__}.
Outputs were computed in 40 decimal digits and rounded once to each dtype, to nearest, ties to even.
Nothing but the files of this folder is needed to test an implementation against them.

## Files

`manifest.json` lists the cases under `cases`, and the files with their sizes and SHA-256 under
`files`. Of each case it says where its arrays are: `arrays.NAME` is an object with `file`, `key`
(the name within the file, null where the file is one array), `dtype` and `shape`.

{_FORMATS[format]}

{chr(10).join(sections)}
{_TOLERANCE}
A layout, a direction or a frequency that is wrong is off by about the length of a pair, millions of
times the tolerance of float32.

## Cases

{chr(10).join(f"* `{case.name}`" for case in cases)}
"""
