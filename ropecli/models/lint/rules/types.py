"""Names of rope types, and the keys that each can't do without."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import attempt
from ropecli.models.lint.rule import Hit, rule
from ropecli.rotary.types import ROPE_TYPES, canonical

#: What Transformers computes.
TRANSFORMERS = (
    "default",
    "linear",
    "dynamic",
    "yarn",
    "longrope",
    "llama3",
    "proportional",
    "axial",
)
#: Names that one stack or a few models' code give a meaning.
_LOCAL = {
    "su": "longrope, and only the code of Phi-3 and vLLM know the old name",
    "mrope": "default with mrope_section, and only the code of Qwen2-VL and vLLM know the old name",
    "xdrope": "dynamic with alpha and xdrope_section, and only HunYuan's code and vLLM know it",
}
#: Keys without which Transformers refuses the file.
_NEEDED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}


@rule(
    "R015",
    "error",
    "type and rope_type differ",
    of=Entry,
    why="Transformers takes rope_type and says nothing of type; vLLM refuses the file.",
    cure="Take type out: it is the old name of rope_type.",
)
def two_types(entry: Entry) -> Iterator[Hit]:
    """`type` and `rope_type` with different meanings, other names for the same type apart."""
    old, new = entry.values.get("type"), entry.values.get("rope_type")
    if not isinstance(old, str) or not isinstance(new, str) or _plain(old) == _plain(new):
        return
    yield Hit(
        entry.key("type"),
        f"Transformers takes rope_type {new!r} and ignores type {old!r}; vLLM refuses the file.",
    )


@rule(
    "R016",
    "note",
    "a name that only some stacks know",
    of=Entry,
    why="Transformers refuses such a name for most models: it knows default, linear, dynamic, "
    "yarn, longrope, llama3, proportional and axial.",
    cure="Use the name that all stacks know, where there is one.",
)
def local_name(entry: Entry) -> Iterator[Hit]:
    """An old name of a rope type, or one of vLLM's own."""
    written = entry.written_type
    if not isinstance(written, str) or entry.rope_type is None or written in TRANSFORMERS:
        return
    said = _LOCAL.get(written, "a type that Transformers does not have")
    place = "rope_type" if "rope_type" in entry.values else "type"
    yield Hit(entry.key(place), f"{written!r} is {said}.")


@rule(
    "R017",
    "error",
    "an unknown rope type",
    of=Entry,
    why="Transformers fails with a KeyError, or warns and fails later.",
    cure=f"The types are {', '.join(ROPE_TYPES)}.",
)
def unknown_type(entry: Entry) -> Iterator[Hit]:
    """A rope_type that no stack has."""
    if entry.rope_type is None and entry.written_type is not None:
        place = "rope_type" if "rope_type" in entry.values else "type"
        yield Hit(entry.key(place), f"{entry.written_type!r:.60} is no rope type.")


@rule(
    "R018",
    "error",
    "a scaling key is missing",
    of=Entry,
    why="Transformers refuses the file with a KeyError.",
    cure="Add it, with the value that the model was trained or released with.",
)
def missing(entry: Entry) -> Iterator[Hit]:
    """A key that the rope type can't do without.

    The factor of linear, dynamic, yarn and llama3, the other two of llama3, the lists of longrope.
    """
    rope_type = entry.rope_type or ""
    if not entry.values or (rope_type == "dynamic" and entry.has("alpha")):
        return
    for name in _NEEDED.get(rope_type, ()):
        if name not in entry.values:
            yield Hit(entry.key(name), f"Rope type {rope_type} needs it; Transformers refuses.")


@rule(
    "R019",
    "warning",
    "null among the scaling keys",
    of=Entry,
    why="Transformers keeps the null where it would fill in a missing key: a null rope_theta or "
    "original length fails later, and a null truncate counts as false.",
    cure="Give a value, or take the key out.",
)
def null(entry: Entry) -> Iterator[Hit]:
    """null for a scaling key whose default is not taken then."""
    effects = dict.fromkeys(
        (
            "rope_theta",
            "rope_type",
            "original_max_position_embeddings",
            "short_factor",
            "long_factor",
            "low_freq_factor",
            "high_freq_factor",
        ),
        "Transformers keeps the null and fails on it, where it would fill in a missing key.",
    ) | {"truncate": "Transformers takes null for false, where a missing key is true."}
    if entry.rope_type != "yarn":
        effects["factor"] = "Transformers keeps the null and fails on it."
    for name, effect in effects.items():
        if name in entry.values and entry.values[name] is None:
            yield Hit(entry.key(name), effect)


def _plain(name: str) -> str:
    return attempt(lambda: canonical(name)) or name
