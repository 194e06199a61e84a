"""Where the header of a GGUF puts the rotation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ropecli.models.gguf.architectures import architecture
from ropecli.models.lint.header import Header
from ropecli.models.lint.numbers import attempt, numbers, shown
from ropecli.models.lint.rule import Hit, rule

_SECTIONS = "rope.dimension_sections"
_WHOLE = ("llama", "deci", "falcon")  #: Refused by llama.cpp unless the whole head turns.


@rule(
    "R103",
    "warning",
    "an architecture whose layout is not known",
    of=Header,
    why="No key of a GGUF says how pairs lie: stacks have a switch over general.architecture, and "
    "one wrong case gives fluent nonsense. Plamo was wrong for more than a year, and one bad "
    "insertion took 39 architectures from a perplexity of 4.26 to 252.8.",
    cure="Compare with the model's code; half is assumed here.",
    threads=("ggml-org/llama.cpp#13260", "ikawrakow/ik_llama.cpp#2290"),
)
def unknown_layout(header: Header) -> Iterator[Hit]:
    """A `general.architecture` that llama.cpp does not have."""
    sections = tuple(int(n) for n in numbers(header.get(_SECTIONS)) or ())
    if architecture(header.architecture, sections).mode is None:
        yield Hit(
            "general.architecture",
            f"{header.architecture!r:.60} is none of llama.cpp's; pairs (i, i + d/2) are assumed.",
        )


@rule(
    "R104",
    "error",
    "dimension_count is not the head's size",
    of=Header,
    why="llama.cpp refuses the file: in these architectures the whole head is rotated.",
    cure="Write rope.dimension_count as attention.key_length, or embedding_length over "
    "attention.head_count.",
)
def other_size(header: Header) -> Iterator[Hit]:
    """`rope.dimension_count` other than the size of a head, in llama, deci and falcon."""
    count, head = header.integer("rope.dimension_count"), header.integer("attention.key_length")
    width, heads = header.integer("embedding_length"), header.integer("attention.head_count")
    if head is None and width and heads:
        head = width // heads
    if header.architecture in _WHOLE and count is not None and head and count != head:
        yield Hit(header.key("rope.dimension_count"), f"It is {count:,}, and a head {head:,}.")


@rule(
    "R107",
    "warning",
    "dimension_sections that do not add up",
    of=Header,
    why="ggml begins the sections anew where they end, so that slow pairs are turned by other axes "
    "than the model's.",
    cure="Let the sections add up to half of rope.dimension_count: they count pairs.",
)
def sections_sum(header: Header) -> Iterator[Hit]:
    """`rope.dimension_sections` whose sum is not the number of pairs."""
    sections, dim = numbers(header.get(_SECTIONS)), header.dim
    if sections and dim is not None and sum(sections) != dim // 2:
        total = " + ".join(map(shown, sections))
        yield Hit(
            header.key(_SECTIONS),
            f"{total} = {shown(sum(sections))}, and there are {dim // 2} pairs.",
        )


@rule(
    "R111",
    "note",
    "the old name of a linear factor",
    of=Header,
    why="rope.scale_linear was replaced by rope.scaling.type and rope.scaling.factor; newer "
    "readers need not know it.",
    cure="Convert again.",
)
def old_factor(header: Header) -> Iterator[Hit]:
    """`rope.scale_linear`."""
    given = header.number("rope.scale_linear")
    if given is not None:
        yield Hit(header.key("rope.scale_linear"), f"Its value is {shown(given)}.")


@rule(
    "R115",
    "warning",
    "a freq_base that is small for the context",
    of=Header,
    why="The slowest pair comes round within the context, so that distances repeat in every pair.",
    cure="Check rope.freq_base against the model's config.json.",
    threads=("ggml-org/llama.cpp#2768",),
)
def small_base(header: Header) -> Iterator[Hit]:
    """An unscaled rotation of all blocks, and a `context_length` above its slowest wavelength."""
    context = header.context
    if len(header.settings) != 1 or context is None or header.get("attention.sliding_window"):
        return
    settings, dim = header.settings[0], header.dim
    base = attempt(lambda: float(settings.scaling["rope_theta"]))
    if settings.rope_type != "default" or base is None or dim is None or dim < 4 or base <= 1:
        return
    slowest = 2 * math.pi * base ** ((dim - 2) / dim)
    if context > slowest:
        yield Hit(
            header.key("rope.freq_base"),
            f"With base {shown(base)} the slowest of {dim // 2} pairs comes round after "
            f"{slowest:,.0f} positions, and the context is {context:,}.",
        )
