"""The file as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import File
from ropecli.models.source import RepeatedKeys


@rule(
    "R001",
    "error",
    "the rotation can't be computed",
    of=File,
    why="A value is missing, of the wrong kind or out of range, and no other rule names it. "
    "Stacks refuse such a file, or compute something that nobody meant.",
    cure="Correct the value; the model's own repository has the one it was trained with.",
)
def uncomputable(file: File) -> Iterator[Hit]:
    """A file that can be read, and speaks of a rotary embedding that can't be computed."""
    if file.problem is not None and file.rotates:
        yield Hit("", f"{file.problem}.")


@rule(
    "R002",
    "note",
    "no rotary embedding",
    of=File,
    why="There was nothing to judge: no key of the file speaks of a rotary embedding, and its "
    "architecture is not known to have one.",
    cure="Name the config.json of a model with rotary embeddings, or add rope_theta to it.",
)
def nothing_rotary(file: File) -> Iterator[Hit]:
    """A file without any key of rotary embeddings."""
    if not file.rotates:
        yield Hit("", "No key speaks of a rotary position embedding, so nothing was judged.")


@rule(
    "R003",
    "warning",
    "a key that stands twice",
    of=File,
    why="Readers of JSON take the last of them without a word, people take the first.",
    cure="Leave one of them out.",
)
def repeated(file: File) -> Iterator[Hit]:
    """An object of JSON in which a key stands more than once."""
    waiting: list[tuple[str, Any]] = [("", file.raw)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, RepeatedKeys):
            for name in value.repeated:
                message = f"It stands more than once; readers take the last, {value[name]!r:.60}."
                yield Hit(f"{path}.{name}".lstrip("."), message)
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}".lstrip("."), child) for name, child in value.items()]


@rule(
    "R004",
    "note",
    "an architecture that is not known here",
    of=File,
    why="No key of a config.json says how pairs lie in a head: (i, i + d/2) or (2i, 2i+1). For "
    "models that are not in the table, what most of them do is assumed. A wrong layout passes "
    "every test of norms and relative positions, and ruins the model.",
    cure="Compare the assumptions with the model's code: look for rotate_half, or for complex "
    "numbers or strides of 2.",
    threads=("ggml-org/llama.cpp#13260", "ikawrakow/ik_llama.cpp#2290", "paiml/aprender#2084"),
)
def unknown_architecture(file: File) -> Iterator[Hit]:
    """A config.json whose model_type is missing or not in the table of architectures."""
    if file.format != "config.json" or not file.rotates:
        return
    said = dict.fromkeys(
        sentence
        for settings in file.settings
        for sentence in settings.assumed
        if not sentence.startswith("base ")
    )
    if said:
        yield Hit("model_type", f"Assumed: {'; '.join(said)}.")
