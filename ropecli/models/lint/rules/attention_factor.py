"""attention_factor of YaRN and LongRoPE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import shown
from ropecli.models.lint.rule import Hit, rule

_REPLACED = ("yarn", "longrope")  #: The types that read attention_factor.


@rule(
    "R027",
    "error",
    "an attention factor that is not above 0",
    of=Entry,
    why="It multiplies cos and sin: at 0 every score is 0, and a negative one cancels in the score "
    "of a query and a key, and nowhere else.",
    cure="Take it out, so that it follows from the factor, or write a number above 0.",
)
def attention_factor_range(entry: Entry) -> Iterator[Hit]:
    """An `attention_factor` of 0 or less."""
    given = entry.number("attention_factor")
    if given is not None and given <= 0:
        yield Hit(
            entry.key("attention_factor"),
            f"cos and sin are multiplied by {shown(given)}, and scores by its square.",
        )


@rule(
    "R028",
    "note",
    "an attention factor written as an integer",
    of=Entry,
    why="The value counts as it is, and Transformers warns at every load, since it expects a "
    "float in yarn.",
    cure="Write it with a decimal point: 1.0.",
    threads=("huggingface/transformers#48594",),
)
def attention_factor_kind(entry: Entry) -> Iterator[Hit]:
    """An integer `attention_factor` under yarn."""
    given = entry.values.get("attention_factor")
    if entry.rope_type == "yarn" and isinstance(given, int) and not isinstance(given, bool):
        yield Hit(entry.key("attention_factor"), f"Transformers warns of {given!r:.40}: no float.")


@rule(
    "R036",
    "note",
    "an attention factor that not every stack reads",
    of=Entry,
    why="Transformers takes it instead of what follows from the factor. mlx-lm and vLLM before "
    "its correction compute their own: with 1.0 at factor 64, as in Laguna, they multiply cos and "
    "sin by 1.4159 and scores by 2.00.",
    cure="Check that the stack you run reads attention_factor.",
    threads=("vllm-project/vllm#46280", "ml-explore/mlx-lm#1507"),
)
def attention_factor_elsewhere(entry: Entry) -> Iterator[Hit]:
    """An `attention_factor` under yarn or longrope, other than what follows from the factor."""
    given = entry.number("attention_factor")
    if given is None or given <= 0 or entry.rope_type not in _REPLACED:
        return
    without = {name: v for name, v in entry.values.items() if name != "attention_factor"}
    plain = replace(entry, values=without).table()
    if plain is not None and abs(plain.attention_factor - given) > 1e-3 * given:
        yield Hit(
            entry.key("attention_factor"),
            f"Stacks that do not read it use {shown(plain.attention_factor)} instead of "
            f"{shown(given)}: scores are {shown((plain.attention_factor / given) ** 2)} times "
            "as large.",
        )
