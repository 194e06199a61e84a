"""Store results past the processor's caches, and prefetch their input.

A plain store reads its line of memory first, to change a part of it. Where a result is larger than
the caches, and so is not read again soon, non-temporal stores leave that out: a parallel copy takes
half to three quarters of the time. Prefetched input arrives while the processor still computes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from ropecli.kernels.jit import serial

LARGE = 1 << 25  #: Size in bytes from which a result is assumed to exceed the caches.
LINE = 64  #: Bytes of a cache line.
AHEAD = 2048  #: Prefetch distance in bytes, the best one measured.
VECTOR = 16  #: Alignment of a row, and of its first pair, in bytes.
COUNT = 16  #: The number of pairs is a multiple of it, so that loops consist of whole vectors.


@serial
def store(array, index, value):
    """Write one number; a kernel's streaming twin has `store_past_caches` in its place."""
    array[index] = value


def store_past_caches(array, index, value):
    """Write one number of an array that `can_stream`; `finish` must follow."""
    array[index] = value


@serial
def fetch(row):
    """Do nothing; a kernel's streaming twin has `fetch_ahead` in its place."""


def fetch_ahead(row):
    """Prefetch as many bytes as a contiguous row has, from AHEAD bytes after its beginning.

    They may lie past the array's end.
    """


#: Helpers of a streaming twin, by those of a kernel that they replace.
STREAMING = {"store": store_past_caches, "fetch": fetch_ahead}


def finish():
    """Wait until what this thread has stored can be read by others."""


def can_stream(out: NDArray[Any], first: int, pairs: int) -> bool:
    """Return whether pairs, from a first coordinate on, are stored past the caches with a gain."""
    places = (out.ctypes.data, out.shape[-1] * out.itemsize, first * out.itemsize)
    aligned = pairs % COUNT == 0 and all(place % VECTOR == 0 for place in places)
    return aligned and out.itemsize >= 4 and out.nbytes >= LARGE


@overload(store_past_caches, inline="always")
def _compile_store(array, index, value):
    def implementation(array, index, value):
        _store(array, index, value)

    return implementation


@overload(fetch_ahead, inline="always")
def _compile_fetch(row):
    def implementation(row):
        _prefetch(row)

    return implementation


@overload(finish, inline="always")
def _compile_finish():
    def implementation():
        _fence()

    return implementation


@intrinsic
def _store(_context, array, index, value):
    def generate(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        number = context.cast(builder, arguments[2], value, array.dtype)
        # A single number has no such alignment, but LLVM vectorises only stores that claim it;
        # its vectors do begin at multiples of 16 bytes, by `can_stream`.
        stored = builder.store(number, builder.gep(data, [arguments[1]]), align=VECTOR)
        flag = builder.module.add_metadata([ir.IntType(32)(1)])
        stored.set_metadata("nontemporal", flag)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def _prefetch(_context, row):
    # A loop in Python, around the prefetch of one line, would keep others from being vectorised.
    def generate(context, builder, _signature, arguments):
        byte, number = ir.IntType(8), ir.IntType(32)
        array = context.make_array(row)(context, builder, arguments[0])
        begin = builder.bitcast(array.data, byte.as_pointer())
        size = builder.mul(builder.extract_value(array.shape, 0), array.itemsize)
        kind = ir.FunctionType(ir.VoidType(), [begin.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [begin.type], kind)
        before, loop = builder.block, builder.append_basic_block("fetch")
        after = builder.append_basic_block("fetched")
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(size.type)
        line = builder.gep(begin, [builder.add(index, size.type(AHEAD))])
        builder.call(function, [line, number(0), number(3), number(1)])  # to read, all caches, data
        following = builder.add(index, size.type(LINE))
        index.add_incoming(size.type(0), before)
        index.add_incoming(following, loop)
        builder.cbranch(builder.icmp_unsigned("<", following, size), loop, after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.void(row), generate


@intrinsic
def _fence(_context):
    def generate(context, builder, _signature, _arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate
