"""The verify command."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from subprocess import DEVNULL

from ropecli.cli import options
from ropecli.cli.command import command, flag, option
from ropecli.cli.options import EncodingOptions, PageOptions, Seed


@command()
def verify(
    *,
    rope: EncodingOptions,
    layout: str | None = option("LAYOUT", "Pairing: interleaved or half. [default: both]"),
    rotary_offset: options.RotaryOffset = None,
    dtype: str | None = option(
        "DTYPE", "Dtype: float64, float32, float16 or bfloat16. [default: all]"
    ),
    max_position: int | None = option("M", "Largest position sampled. [default: 131072]"),
    errors: bool = flag("--errors", "Show errors and tolerances instead of their ratios."),
    explain: bool = flag("--explain", "Show how each tolerance is derived."),
    seed: Seed = 0,
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli verify --dim 64
      ropecli verify --dim 128 --base 500000 --layout half --max-position 1000000
      ropecli verify --dim 64 --dtype bfloat16 --errors
      ropecli verify --model example:llama-3.1-8b

    Check the laws of RoPE on ropecli's own rotation. For your implementation: ropecli check; for
    a model: ropecli lint and ropecli trace. The laws are those of RoFormer Eq. 11-16 and 34-37,
    in every dtype and in both layouts, held against an independent reference. Exit code 1 if a
    law fails.
    """
    from ropecli.arrays import DTYPES
    from ropecli.checks.verify import MAX_POSITION, join
    from ropecli.checks.verify import verify as judge
    from ropecli.cli.progress import is_watched
    from ropecli.kernels.cache import is_compiled, refusal

    max_position = MAX_POSITION if max_position is None else max_position
    layouts = ("interleaved", "half") if layout is None and rope.model is None else (layout,)
    encodings = [
        replace(rope, layout=side).encoding(uses_context=False, rotary_offset=rotary_offset)
        for side in layouts
    ]
    # A single pair is the same in either layout.
    ropes = list(dict.fromkeys(encoding.rope for encoding in encodings))
    page.note(*encodings[0].notes)
    second = ropes[1].layout if len(ropes) == 2 else None
    dtypes = len(DTYPES) if dtype is None else 1
    # Half precision has another kernel than float32 and float64.
    compile_both = second is not None and not is_compiled(f"rotation._rotate_*_{second}", dtypes)
    if (compile_both or not is_compiled("rotation.")) and is_watched():
        kept = f"each time, since they can't be kept: {refusal()}" if refusal() else "this once"
        page.note(f"compiling the kernels: some seconds, {kept}")
    with contextlib.ExitStack() as stack:
        stack.enter_context(page.working())
        if second is not None and compile_both and not refusal():
            stack.enter_context(_compiling(second, dtype))
        result = join(
            judge(rotary, dtype=dtype, seed=seed, max_position=max_position) for rotary in ropes
        )
    unused = ("errors", "explain")
    parameters = page.parameters(ropes, omit=unused, max_position=max_position)
    name = encodings[0].name
    page.show(result, parameters, ropes=ropes, name=name, errors=errors, explain=explain)
    return result.passed


@contextlib.contextmanager
def _compiling(layout: str, dtype: str | None) -> Iterator[None]:
    """Compile a layout's kernels in a second process: Numba compiles one at a time."""
    words = [sys.executable, "-P", "-m", "ropecli", "verify", "--layout", layout]
    words += [] if dtype is None else ["--dtype", dtype]
    with subprocess.Popen(words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()
