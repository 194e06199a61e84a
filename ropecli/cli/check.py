"""The check command."""

from __future__ import annotations

import contextlib
import os
import sys
from json import loads
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli import options
from ropecli.cli.options import Json, Layout, Quiet, RotaryDim, Seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ropecli.cli.encoding import NamedRotary

#: Options that say what is expected; without one of them any RoPE is right.
EXPECTING = ("base", "layout", "rotary_dim", "rope_type", "set")


def check(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="module:function or file.py:function; it is run."),
    ],
    model: options.Model = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    dim: Annotated[
        int | None, typer.Option(metavar="N", help="Head dim, even, at least 2; 64 by default.")
    ] = None,
    base: options.Base = None,
    layout: Layout = None,
    rotary_dim: RotaryDim = None,
    rope_type: options.RopeType = None,
    set: options.Set = None,
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="How it is called: apply (x, positions), tables (q, k, cos, sin), module, "
            "decoder, or score (q, k, positions).",
        ),
    ] = "apply",
    tables: Annotated[
        str,
        typer.Option(
            metavar="WIDTH",
            help="With --form tables: each frequency in both halves (half), side by side "
            "(interleaved), or once (single).",
        ),
    ] = "half",
    framework: Annotated[
        str, typer.Option(metavar="NAME", help="Whose arrays it takes: numpy, torch or jax.")
    ] = "numpy",
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="As the framework calls it, such as cuda:0.")
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DTYPE",
            help="float64, float32, float16 or bfloat16; repeatable; those of the framework "
            "by default.",
        ),
    ] = None,
    init: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="An argument for the class or the function; repeatable."
        ),
    ] = None,
    axes: Annotated[
        int | None, typer.Option(metavar="N", help="Coordinates of a position; 1 by default.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Positions that it must take; the model's, or 131072 are tried, by default.",
        ),
    ] = None,
    original: Annotated[
        int | None,
        typer.Option(metavar="N", help="Positions trained with, where frequencies change there."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli check my_kernels.rope:apply
      ropecli check my_kernels.rope:apply --model config.json
      ropecli check kernel.py:rotate --layout half --base 500000
      ropecli check model.py:Rotary --form module --init dim=64
      ropecli check llama.py:apply --form tables --framework torch

    Judge somebody else's RoPE by the laws. Its code is run; every row that it rotates is
    compared with a float64 rotation. Without a model or parameters any RoPE is right, in
    whatever convention; with them only the one they describe. Exit code 1 if a law fails.
    """
    from ropecli.cli.encoding import refuse_beside_model, refuse_without_model
    from ropecli.render import check as pages
    from ropecli.render import console, document

    numbers = {
        "dim": dim,
        "base": base,
        "layout": layout,
        "rotary_dim": rotary_dim,
        "rope_type": rope_type,
        "set": set,
    }
    if model is None:
        refuse_without_model(layer=layer)
    else:
        refuse_beside_model(**numbers)
    expected = _expected(model, layer, sequence_length, numbers)
    if not quiet:
        for note in () if expected is None else expected.notes:
            console.note(note)
        console.note(f"running the code of {target}")
    known = _arguments(init)
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
                head_dim=dim,
                context_length=context,
                original_context_length=original,
                dtypes=dtype,
                device=device,
                init=known,
                tables=tables,
                axes=axes,
                seed=seed,
            )
    if json:
        given = {
            "target": target,
            **numbers,
            "dim": result.head_dim,
            "model": model,
            "layer": layer,
            "sequence_length": sequence_length,
            "form": form,
            "tables": tables,
            "framework": framework,
            "device": device,
            "dtype": result.dtypes,
            "init": init,
            "axes": result.axes,
            "context": result.context_length,
            "original": result.original_context_length,
            "seed": seed,
        }
        document.show("check", given, pages.as_json(result))
    else:
        pages.show(result, target, model, brief=quiet)
    if not result.passed:
        raise typer.Exit(1)


def _expected(
    model: str | None, layer: str | None, sequence_length: int | None, numbers: dict[str, Any]
) -> NamedRotary | None:
    from ropecli.cli.encoding import chosen

    if model is None and all(numbers[name] in (None, []) for name in EXPECTING):
        return None
    return chosen(model, layer, sequence_length, numbers, dim=64)


def _arguments(words: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE words as arguments; values are JSON, or else plain words."""
    from ropecli.errors import ArgumentError

    found: dict[str, Any] = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier() or key in found:
            msg = f"--init must be KEY=VALUE, each key a Python name and given once, got {word!r}"
            raise ArgumentError(msg)
        try:
            found[key] = loads(value)
        except (ValueError, RecursionError):
            found[key] = value
    return found


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What other people's code prints is no part of the result, from whatever language."""
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
