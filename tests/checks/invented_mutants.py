"""More faults of kernels that show somewhere only: launches, offsets, tables, buffers and state."""

from __future__ import annotations

import numpy as np
from implementations.plain import Array
from ml_dtypes import bfloat16
from shape_mutants import (
    CLAMPED,
    DIM,
    FACTOR,
    FIRST_SEQUENCE,
    FULL,
    NEXT,
    NOT_TURNED,
    SIGN,
    STALE,
    THETA,
    ZEROS,
    Call,
    Fault,
    Group,
    Mutant,
    Place,
    position_fault,
    rotate,
)
from shape_mutants import MUTANTS as KNOWN

_sizes, _kept, _both = Group(), Group("class"), Group("both")
_halves = Group(dtypes=("float32", "float16", "bfloat16"))
_far = Group(context_length=FULL)
_decoded = Group("decoder")


def _overwrite_half(call: Call) -> Array:
    """Overwrite the first half before the second one has read it."""
    half, angle = DIM // 2, call.m[..., None] * THETA
    first = call.turn()[..., :half]
    a, b = first.astype(np.float64), call.x[..., half:].astype(np.float64)
    second = (b * np.cos(angle) + a * np.sin(angle)).astype(call.x.dtype)
    return np.concatenate([first, second], axis=-1)


def _tables_of_bfloat16(call: Call) -> Array:
    angle = call.m[..., None] * THETA
    cos, sin = (f(angle).astype(bfloat16).astype(np.float64) for f in (np.cos, np.sin))
    return rotate(call.x, cos, sin)


def _offset_of_16_bits(call: Call) -> Array:
    """Rows are read where an element's offset, kept in 16 bits, points."""
    rows = call.turn().reshape(-1, DIM)
    read = (np.arange(len(rows)) * DIM % 2**16) // DIM
    return rows[read].reshape(call.x.shape)


def _last_pair_fixed(call: Call) -> Array:
    theta = THETA.copy()
    theta[-1] = 0.0
    return call.turn(theta=theta)


def _in_turns(call: Call, y: Array) -> Array:
    """Two buffers for each shape, one after the other."""
    buffers = call.before.results
    number = call.before.calls % 2
    buffer = buffers.setdefault(("turn", number, call.key), np.empty_like(y))
    buffer[...] = y
    return buffer


def _in_one_pool(call: Call, y: Array) -> Array:
    """The beginning of one buffer for all shapes."""
    pool = call.before.results.setdefault("pool", np.empty(2**24, y.dtype))
    view: Array = pool[: y.size].reshape(y.shape)
    view[...] = y
    return view


ALIASED = Fault(name="half overwritten before it is read", rows=_overwrite_half)
TABLES = Fault(name="tables in bfloat16", rows=_tables_of_bfloat16)
OFFSET = Fault(name="offset of 16 bits", rows=_offset_of_16_bits)
LAST_PAIR = Fault(name="last pair left alone", rows=_last_pair_fixed)
BYTE = position_fault("position of 8 bits", lambda call: call.m % 256)
REDUCED = Fault(
    name="angle reduced in single precision", rows=lambda call: call.turn(call.m * (1 + 2.0**-20))
)
GOES_ON = position_fault(
    "counts on from the sequence before", lambda call: call.m + sum(call.before.lengths)
)
TURNS = Fault(name="two buffers in turn", effect=_in_turns)
POOL = Fault(name="one buffer for all shapes", effect=_in_one_pool)


def _padding(call: Call) -> Array:
    padded: Array = (call.positions[:, :1] == 0) & (call.positions == 0)
    where: Array = call.own & (padded.sum(axis=1) > 1)[:, None, None]
    return where


def _nth(call: Call) -> Array:
    """Index of the packed sequence that a row is in."""
    begins = np.diff(call.positions, axis=1, prepend=call.positions[:, :1]) < 0
    return np.cumsum(begins, axis=1)[:, None]


def _power(n: int) -> bool:
    return n & (n - 1) == 0


_CASES: list[tuple[Fault, Place]] = [
    (
        NOT_TURNED,
        _sizes(
            "a last row that fills no block of 128",
            lambda call: (call.row == call.length - 1) & (call.length % 128 == 1),
            "last (row|n mod)",
        ),
    ),
    (
        NEXT,
        _sizes(
            "heads of all sequences from index 256",
            lambda call: call.sequence * call.heads + call.head >= 256,
            "heads|sequences|batch",
        ),
    ),
    (
        OFFSET,
        _sizes(
            "elements from 65,536",
            lambda call: call.flat * DIM >= 2**16,
            "rows of the whole call from the 4,097",
        ),
    ),
    (
        ALIASED,
        _sizes(
            "one token",
            lambda call: call.length == 1 and call.positions.min() > 0,
            "decode|1 token|token alone",
        ),
    ),
    (
        TABLES,
        _sizes(
            "more than 512 tokens",
            lambda call: call.length > 512,
            "more than 512 tokens|bfloat16 tables",
        ),
    ),
    (
        BYTE,
        _sizes(
            "one token from position 256",
            lambda call: (call.length == 1) & (call.m >= 256),
            "256",
        ),
    ),
    (
        ZEROS,
        _sizes(
            "rows from index 1,024",
            lambda call: call.row >= 1024,
            "1,?02[45]",
        ),
    ),
    (
        STALE,
        _sizes(
            "the last of an odd number of heads",
            lambda call: (call.head == call.heads - 1) & (call.heads % 2 == 1) & (call.heads > 1),
            "last .*head|heads",
        ),
    ),
    (
        NEXT,
        _sizes(
            "sequences from the second, of no multiple of 8 tokens",
            lambda call: (call.sequence > 0) & (call.length % 8 != 0),
            "sequences.*2nd.*multiple of 8|multiple of 8.*2nd",
        ),
    ),
    (
        NEXT,
        _sizes(
            "sequences padded on the left",
            _padding,
            "padding|padded|own positions|positions of each",
        ),
    ),
    (
        FACTOR,
        _sizes(
            "the third of packed sequences",
            lambda call: _nth(call) >= 2,
            "packed|third",
        ),
    ),
    (
        FIRST_SEQUENCE,
        _sizes(
            "one token in each sequence",
            lambda call: call.own & (call.length == 1) & (call.sequence > 0),
            "own positions|each sequence|positions of",
        ),
    ),
    (
        NOT_TURNED,
        _halves(
            "the last of an odd number of rows in float16",
            lambda call: (
                (call.row == call.length - 1)
                & (call.length % 2 == 1)
                & (call.x.dtype == np.dtype(np.float16))
            ),
            "float16",
        ),
    ),
    (
        FACTOR,
        _halves(
            "bfloat16 in more than 64 tokens",
            lambda call: call.length > 64 and str(call.x.dtype) == "bfloat16",
            "bfloat16",
        ),
    ),
    (
        NOT_TURNED,
        _halves(
            "float16 at an odd address",
            lambda call: call.memory == "offset" and call.x.dtype == np.dtype(np.float16),
            "float16.*offset|offset.*float16",
        ),
    ),
    (
        NOT_TURNED,
        _sizes(
            "one token of a slice",
            lambda call: call.length == 1 and call.x.base is not None and call.x.strides[1] != 64,
            "sliced|strided|transposed|input",
        ),
    ),
    (
        TURNS,
        _kept(
            "results kept until the call after the next",
            lambda call: True,
            "buffer|first result|overwr",
        ),
    ),
    (
        POOL,
        _kept(
            "results kept until any call",
            lambda call: True,
            "buffer|first result|overwr",
        ),
    ),
    (
        NEXT,
        _kept(
            "a prefill after a single token",
            lambda call: 1 in call.before.lengths and call.length > 1,
            "step|token|call|prefill",
        ),
    ),
    (
        NEXT,
        _kept(
            "the part of a table that was added to it",
            lambda call: (call.before.capacity > 64) & (call.m >= 64),
            "table|cache|grow|call",
        ),
    ),
    (
        CLAMPED,
        _kept(
            "a table that is not made again beyond 4,096",
            lambda call: (call.before.calls > 0) & (call.m >= 4096),
            "4,?09[56]|table|cache",
        ),
    ),
    (
        GOES_ON,
        _decoded(
            "a prefill that goes on",
            lambda call: call.mode == "prefill" and call.before.stepped,
            "second sequence",
        ),
    ),
    (
        FACTOR,
        _both(
            "a k of one head",
            lambda call: (
                call.part == "k"
                and call.other is not None
                and call.heads == 1 < call.other.shape[1]
            ),
            r"\bk\b|keys",
        ),
    ),
    (
        NOT_TURNED,
        _both(
            "one token of k with fewer heads",
            lambda call: (
                call.part == "k"
                and call.other is not None
                and call.heads < call.other.shape[1]
                and call.length == 1
                and call.positions.min() > 0
            ),
            r"\bk\b|keys",
        ),
    ),
    (
        LAST_PAIR,
        _sizes(
            "more than 4,096 tokens",
            lambda call: call.length > 4096,
            "more than 4,096 tokens",
        ),
    ),
    (
        SIGN,
        _sizes(
            "nine sequences",
            lambda call: call.batch > 8,
            "batches of (more than 8|9)",
        ),
    ),
    (
        ZEROS,
        _sizes(
            "the last head of 32",
            lambda call: (call.heads == 32) & (call.head == 31),
            "32(nd)? head",
        ),
    ),
    (
        FACTOR,
        _sizes(
            "lengths of a power of two from 64",
            lambda call: call.length >= 64 and _power(call.length),
            "power of two|multiple of 64",
        ),
    ),
    (
        NOT_TURNED,
        _sizes(
            "positions of a multiple of 1,024",
            lambda call: (call.m % 1024 == 0) & (call.m > 0),
            "1,?024",
        ),
    ),
    (
        REDUCED,
        _far(
            "positions from 32,768",
            lambda call: call.m >= 32_768,
            "32,?7|lose digits|phase",
        ),
    ),
]
INVENTED = [Mutant(fault=fault, place=place) for fault, place in _CASES]
MUTANTS = KNOWN | {mutant.name: mutant for mutant in INVENTED}
assert len(MUTANTS) == len(KNOWN) + len(INVENTED)
#: One of each form and options: with the fault switched off, the others are the same kernel.
TWINS = {(mutant.place.form, str(mutant.options)): mutant for mutant in MUTANTS.values()}
