"""Kernels of PyTorch that are wrong in some memory, or whose gradient is wrong somewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from faults import (
    DIM,
    FACTOR,
    NAN,
    NEXT,
    NOT_TURNED,
    SHORT,
    SIGN,
    ZEROS,
    Call,
    Fault,
    History,
    Mutant,
    Place,
    batch_above,
    head_from,
    in_dtype,
    longer,
    sequence_from,
    tail,
)
from judging import check_here, refusals
from numpy.typing import NDArray

from ropecli.arrays import DTYPES

pytestmark = pytest.mark.oracle

Array = NDArray[Any]
#: Of a gradient, given as a call at the positions negated, by which the right one is turned.
FORWARD = Fault(name="turned forwards again", rows=SIGN.rows)
RIGHT = Fault(name="right")
GRADIENTS = (FORWARD, NOT_TURNED, ZEROS, NAN, FACTOR, NEXT)

ANYWHERE = Place("everywhere", "gradient", lambda call: True)
PLACES = (
    ANYWHERE,
    head_from(8),
    sequence_from(1),
    batch_above(4),
    longer(64),
    tail(64),
    in_dtype("float16"),
)
MEMORY = ("transposed", "sliced", "strided", "expanded")


def to_numpy(tensor: Any) -> Array:
    """A copy, with bfloat16 bit by bit."""
    import torch

    flat = tensor.detach().clone(memory_format=torch.contiguous_format)
    if flat.dtype == torch.bfloat16:
        return np.array(flat.view(torch.int16).numpy().view(DTYPES["bfloat16"]))
    return np.array(flat.numpy())


def to_torch(array: Array) -> Any:
    import torch

    if array.dtype == DTYPES["bfloat16"]:
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def memory_of(x: Any) -> str:
    if any(stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1):
        return "expanded"
    if x.stride(-1) != 1:
        return "strided"
    if x.is_contiguous():
        return "offset" if x.storage_offset() else "contiguous"
    long = [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1]
    return "sliced" if long == sorted(long, reverse=True) else "transposed"


def as_if_contiguous(x: Any) -> Any:
    """The numbers one after another from where x begins; of an offset x, from its storage's."""
    import torch

    size = x.untyped_storage().nbytes() // x.element_size()
    begin = 0 if memory_of(x) == "offset" else x.storage_offset()
    flat = torch.as_strided(x.detach(), (size,), (1,), 0)
    beyond = torch.nn.functional.pad(flat, (0, x.numel()))
    return beyond[begin : begin + x.numel()].reshape(x.shape)


def turn(x: Any, positions: Any, *, back: bool, mutant: TorchMutant | None) -> Any:
    """RoPE whose gradient is RoPE the other way, which a mutant of gradients turns wrongly."""
    import torch
    from torch.autograd.function import once_differentiable

    class Turn(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, given: Any) -> Any:
            m = np.atleast_2d(positions.numpy().astype(np.float64))
            call = Call(x=to_numpy(given), positions=-m if back else m, before=History())
            y = call.turn().astype(call.x.dtype)
            if mutant is not None and back and call.x.ndim == 4:  # places are those of four axes
                y = Mutant(mutant.fault, mutant.place).change(call, y)
            return to_torch(y)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            wrongly = mutant is not None and memory_of(gradient) == mutant.memory_of_gradient
            read = as_if_contiguous(gradient) if wrongly else gradient
            turned = turn(read, positions, back=not back, mutant=mutant)
            if mutant is not None and mutant.spoils:
                gradient.detach().zero_()
            return turned

    class Once(Turn):
        backward = staticmethod(once_differentiable(Turn.backward))

    once = mutant is not None and mutant.once and not back
    return (Once if once else Turn).apply(x)


@dataclass(frozen=True, kw_only=True)
class TorchMutant:
    """A function of PyTorch with a fault in the gradient, or in one kind of memory."""

    name: str
    fault: Fault = RIGHT
    place: Place = ANYWHERE
    memory: str = ""  #: Kind of memory that is read as contiguous.
    memory_of_gradient: str = ""  #: The same of the gradient that it is given.
    once: bool = False  #: Its gradient has none.
    spoils: bool = False  #: It writes into the gradient that it is given.
    of_keys: bool = False  #: It takes q and k, of which k's gradient is wrong.
    escapes: str = ""  #: Why no law finds it; empty if one does.
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def says(self) -> str:
        return self.memory or self.memory_of_gradient or self.place.says

    @property
    def options(self) -> Mapping[str, Any]:
        known = {"head_dim": DIM, "context_length": SHORT, "dtypes": ("float32",), "ignore": ()}
        return {**known, "framework": "torch", **self.place.options, **self.more}

    def target(self, *, on: bool = True) -> Any:
        def apply(x: Any, positions: Any) -> Any:
            read = x
            if on and self.memory and memory_of(x) == self.memory:
                read = as_if_contiguous(x)
            return turn(read, positions, back=False, mutant=self if on else None)

        def both(q: Any, k: Any, positions: Any) -> tuple[Any, Any]:
            right = turn(q, positions, back=False, mutant=None)
            return right, turn(k, positions, back=False, mutant=self if on else None)

        return both if self.of_keys else apply


MUTANTS = [
    *(
        TorchMutant(
            name=f"{fault.name}: gradient of {place.name}",
            fault=fault,
            place=place,
            more={} if fault is FORWARD else {"select": ("gradient",)},
        )
        for number, place in enumerate(PLACES)
        for fault in (GRADIENTS if place is ANYWHERE else (GRADIENTS * 2)[number % 5 :][:3])
    ),
    TorchMutant(
        name="no second gradient",
        once=True,
        escapes="a gradient need not have one itself",
    ),
    TorchMutant(
        name="gradient written into",
        spoils=True,
    ),
    TorchMutant(
        name="turned forwards again: gradient of k",
        fault=FORWARD,
        of_keys=True,
    ),
    *(
        TorchMutant(
            name=f"gradient read as contiguous: {kind}",
            memory_of_gradient=kind,
            more={"select": ("gradient",)},
        )
        for kind in MEMORY
    ),
    *(TorchMutant(name=f"read as contiguous: {kind} input", memory=kind) for kind in MEMORY),
    *(
        TorchMutant(
            name=f"read as contiguous: {kind} {dtype} input",
            memory=kind,
            more={"dtypes": (dtype,)},
        )
        for kind, dtype in zip(MEMORY, ("float16", "bfloat16", "float64") * 2, strict=False)
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught_and_named(mutant: TorchMutant) -> None:
    verdict = check_here(mutant.target(), **mutant.options)
    assert verdict.passed == bool(mutant.escapes), mutant.escapes
    said = verdict.diagnosis or ""
    assert mutant.escapes or re.search(mutant.says, said, re.IGNORECASE), said


#: One mutant per twin: without their faults, the others are the same function.
TWINS = {(repr(mutant.options), mutant.of_keys): mutant for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", TWINS.values(), ids=lambda mutant: mutant.name)
def test_twin_passes(mutant: TorchMutant) -> None:
    assert refusals(check_here(mutant.target(on=False), **mutant.options)) == []


@pytest.mark.parametrize("lost", ["nothing", "half", "all"])
def test_a_gradient_follows_from_rows_that_are_equally_wrong(lost: str) -> None:
    """Positions in bfloat16 make both equally wrong, unless a part of the gradient is lost."""
    import torch

    theta = 10_000.0 ** (-torch.arange(0, DIM, 2, dtype=torch.float32) / DIM)

    def rope(x: Any, positions: Any) -> Any:
        angles = positions.to(torch.bfloat16).float()[..., None] * theta
        cos, sin = (each.to(x.dtype) for each in (angles.cos(), angles.sin()))
        a, b = x.chunk(2, dim=-1)
        c = b.detach() if lost == "half" else b
        y = torch.cat((a * cos - c * sin, b * cos + a * sin), dim=-1)
        if lost == "all" and y.requires_grad:
            y.register_hook(lambda gradient: gradient * torch.nan)
        return y

    verdict = check_here(rope, head_dim=DIM, ignore="many steps")
    follows = {check.name: check.follows for check in verdict.checks if check.passed is False}
    assert follows["precision"] is None
    assert follows["gradient"] == ("precision" if lost == "nothing" else None)
