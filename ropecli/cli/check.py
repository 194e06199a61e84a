"""The check command."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli.command import command
from ropecli.cli.options import EncodingOptions, PageOptions, Seed
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ropecli.cli.encoding import NamedRotary


@command
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Implementation to run: module:function or file.py:function."
        ),
    ],
    *,
    rope: EncodingOptions,
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="Call signature: apply (x, positions), tables (q, k, cos, sin), module, decoder, "
            "or score (q, k, positions).",
        ),
    ] = "apply",
    tables: Annotated[
        str,
        typer.Option(
            metavar="WIDTH",
            help="Order of the columns for --form tables: each frequency in both halves (half), "
            "side by side (interleaved), or once (single).",
        ),
    ] = "half",
    framework: Annotated[
        str, typer.Option(metavar="NAME", help="Framework of the arrays: numpy, torch or jax.")
    ] = "numpy",
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="Device of the framework, e.g. cuda:0.")
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DTYPE",
            help="Dtype: float64, float32, float16 or bfloat16; repeatable. [default: those of the "
            "framework]",
        ),
    ] = None,
    init: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument of the class or function; repeatable."),
    ] = None,
    axes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of coordinates of a position. [default: 1]"),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Context length to support. [default: the model's, or up to 131072]",
        ),
    ] = None,
    original: Annotated[
        int | None,
        typer.Option(metavar="N", help="Original context length, if frequencies change there."),
    ] = None,
    seed: Seed = 0,
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli check my_kernels.rope:apply
      ropecli check my_kernels.rope:apply --model config.json
      ropecli check kernel.py:rotate --layout half --base 500000
      ropecli check model.py:Rotary --form module --init dim=64
      ropecli check llama.py:apply --form tables --framework torch

    Check another implementation of RoPE. Its code is run, the laws are checked, and every row that
    it rotates is compared with a float64 rotation. Without a model or parameters any RoPE is
    correct, in whatever convention; with them, only the one they describe. Exit code 1 if a law
    fails.
    """
    expected = _expected_encoding(rope)
    page.note(*(() if expected is None else expected.notes), f"running the code of {target}")
    arguments = _arguments(init)
    if context is None and expected is not None and expected.layer is not None:
        context = expected.layer.context_length
    with _stdout_to_stderr():
        from ropecli.checks.implementation.check import check as judge
        from ropecli.files.function import in_reach, load_function

        function = load_function(target)
        with in_reach(target):
            result = judge(
                function,
                expect=None if expected is None else expected.rope,
                framework=framework,
                form=form,
                head_dim=rope.dim,
                context_length=context,
                original_context_length=original,
                dtypes=dtype,
                device=device,
                init=arguments,
                tables=tables,
                axes=axes,
                seed=seed,
            )
    resolved = {
        "dim": result.head_dim,
        "dtype": result.dtypes,
        "axes": result.axes,
        "context": result.context_length,
        "original": result.original_context_length,
    }
    page.show(result, page.parameters(**resolved), target=target, model=rope.model)
    return result.passed


def _expected_encoding(rope: EncodingOptions) -> NamedRotary | None:
    """Return the encoding that is described; None where any RoPE is correct."""
    from ropecli.cli.encoding import refuse_without_model

    refuse_without_model(layer=rope.layer if rope.model is None else None)
    describes = {name: value for name, value in rope.numbers.items() if name != "dim"}
    if rope.model is None and all(value in (None, []) for value in describes.values()):
        return None
    return rope.encoding()


def _arguments(words: list[str] | None) -> dict[str, Any]:
    """Parse the words of --init as keyword arguments."""
    from ropecli.cli.encoding import key_values

    found = key_values("--init", words)
    for key in found:
        if not key.isidentifier():
            msg = f"--init must be KEY=VALUE, KEY a Python name, got {key!r}"
            raise ArgumentError(msg)
    return found


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send what the code under test prints to stderr, from whatever language."""
    sys.stdout.flush()
    try:
        out, err = os.dup(1), 2
        os.dup2(err, 1)
    except OSError:  # one of the two is closed
        out = -1
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if out >= 0:
            os.dup2(out, 1)
            os.close(out)
