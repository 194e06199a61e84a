"""The scaling of Llama 3.1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import shown
from ropecli.models.lint.rule import Hit, rule


@rule(
    "R050",
    "error",
    "low_freq_factor above high_freq_factor",
    of=Entry,
    why="The step between slowed and kept pairs runs backwards. Transformers warns and goes on. "
    "The same value twice, as in Llama 4 Scout, is a step without a slope.",
    cure="Exchange them; Llama 3.1 has 1 and 4.",
)
def frequency_order(entry: Entry) -> Iterator[Hit]:
    """llama3 whose `low_freq_factor` is above its `high_freq_factor`."""
    low, high = entry.number("low_freq_factor"), entry.number("high_freq_factor")
    if entry.rope_type == "llama3" and low is not None and high is not None and low > high:
        yield Hit(
            entry.key("low_freq_factor"),
            f"It is {shown(low)}, and high_freq_factor {shown(high)}.",
        )


@rule(
    "R051",
    "warning",
    "llama3 scaling that changes no pair",
    of=Entry,
    why="Every pair turns often enough within the original length to be left alone, so the "
    "factor counts for nothing; often the original length is the stretched one.",
    cure="Write the length before stretching as original_max_position_embeddings.",
    threads=("unslothai/unsloth#6197",),
)
def idle(entry: Entry) -> Iterator[Hit]:
    """llama3 with a factor above 1 whose frequencies are those without scaling."""
    factor, scaled, plain = entry.number("factor"), entry.table(), entry.table(factor=1.0)
    if entry.rope_type != "llama3" or factor is None or scaled is None or plain is None:
        return
    if factor > 1 and np.array_equal(scaled.inv_freq, plain.inv_freq):
        yield Hit(
            entry.key("factor"),
            f"All {len(plain.inv_freq)} pairs turn as without it: the slowest one turns more "
            f"than high_freq_factor times within {entry.original or 0:,} positions.",
        )
