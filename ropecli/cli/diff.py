"""The diff command."""

from __future__ import annotations

from ropecli.cli import options
from ropecli.cli.command import argument, command, option
from ropecli.cli.options import PictureOptions
from ropecli.errors import ArgumentError


@command()
def diff(
    a: str = argument("A", f"First model: {options.SOURCE}."),
    b: str | None = argument("B", "Second model. [default: A itself, with --as]"),
    readings: list[str] | None = option(
        "STACK",
        "Stack: transformers, vllm, llama.cpp, mlx-lm or paper; twice, for A and for B.",
        "--as",
    ),
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    position: list[int] | None = option("M", "Position at which phases are compared; repeatable."),
    *,
    output: PictureOptions,
) -> bool:
    """\b
    Examples:
      ropecli diff example:llama-3-8b example:llama-3.1-8b
      ropecli diff config.json model.gguf
      ropecli diff config.json --as transformers --as mlx-lm -o diff.png

    Show how two models differ, or one model as two stacks read it. Show which fields
    differ, by how many radians, and from which position on. Exit code 1 if the models differ.
    """
    from ropecli.models.diff import diff as compare
    from ropecli.models.load import check_length, compute, describe

    first, second = _stacks(readings or [], one=b is None)
    if (a, b) == ("-", "-"):
        raise ArgumentError(
            "stdin (-) can be given only once: name one of the two, or omit it with --as"
        )
    length = check_length(sequence_length)
    one = describe(a)
    two = one if b is None else describe(b)
    result = compare(
        compute(one, sequence_length=length, reading=first).only(layer),
        compute(two, sequence_length=length, reading=second).only(layer),
        positions=position or None,
    )
    used = {"b": a if b is None else b, "as": [result.a.reading, result.b.reading]}
    output.show(result, output.parameters(omit=["readings"], **used))
    return result.same


def _stacks(names: list[str], *, one: bool) -> tuple[str | None, str | None]:
    """Return the stacks that read A and B; None for the one that the file is made for."""
    if len(names) > 2:
        raise ArgumentError(
            f"--as can be given at most twice (A, B), got {len(names)}: {', '.join(names)}"
        )
    if one and not names:
        raise ArgumentError("one source needs --as STACK, such as vllm, or a second source")
    if len(names) == 2:
        return names[0], names[1]
    if one:
        return None, names[0]
    return (names[0], names[0]) if names else (None, None)
