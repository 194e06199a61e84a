"""The precision command."""

from __future__ import annotations

from typing import Annotated

from ropecli.cli.command import Help, command, option
from ropecli.cli.options import EncodingListOptions, OutputOptions, Seed
from ropecli.names import choices, one_of
from ropecli.units import UNIT


@command()
def precision(
    dtype: list[str] | None = option(
        "DTYPE", f"Dtype of all stages: {choices([*UNIT])}; repeatable."
    ),
    policy: list[str] | None = option(
        "SCHEME",
        "A dtype for each stage: preset, or STAGE=DTYPE words joined by commas; repeatable. "
        "[default: eight presets]",
    ),
    tolerance: list[float] | None = option(
        "R", "Phase error of a safe context, radians; repeatable. [default: 0.01, 0.1, 1]"
    ),
    *,
    rope: Annotated[
        EncodingListOptions, Help(context="Context length. [default: the model's, or 131072]")
    ],
    seed: Seed = 0,
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli precision --policy bf16-positions --policy bf16-inv-freq
        policy          error  position  violation     0.01      0.1        1
        bf16-positions    256    65,792        256      257      257      514
        bf16-inv-freq   160.3   131,071          0        9       82      818
      ropecli precision --dim 32 --context 2048 --dtype float16
      ropecli precision --policy positions=bfloat16,tables=float16
      ropecli precision --model example:llama-3-8b --tolerance 0.001

    Measure what dtypes do to angles, tables and scores. A scheme is a dtype for each stage:
    positions, frequencies, angles, tables and data. The presets are float64, float32, float16,
    bfloat16, mixed-bf16, mixed-fp16, bf16-autocast, bf16-positions, fp16-positions, bf16-inv-freq,
    fp16-inv-freq, bf16-tables, fp16-tables and fp8-data.
    """
    from ropecli.analyses.policy import USUAL
    from ropecli.analyses.precision import CONTEXT, TOLERANCES
    from ropecli.analyses.precision import precision as analyse

    for dtype_name in dtype or ():
        one_of("--dtype", dtype_name, UNIT)
    policies = list(dict.fromkeys([*(dtype or ()), *(policy or ())] or USUAL))
    tolerances = list(dict.fromkeys(tolerance or TOLERANCES))
    encodings = rope.encodings()
    output.note_encodings(encodings)
    with output.working():
        results = [
            analyse(
                encoding.rope,
                policies,
                context_length=encoding.context or CONTEXT,
                tolerances=tolerances,
                seed=seed,
                name=encoding.name,
            )
            for encoding in encodings
        ]
    parameters = output.parameters(results, omit=["dtype"], policy=policies, tolerance=tolerances)
    output.show_all(results, parameters)
