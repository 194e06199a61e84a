"""Position ids of images and videos among text, in time, height and width (M-RoPE)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.names import one_of, quote
from ropecli.numbers import at_least, positive

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Rules by which models of a family number the patches of an image or a video."""

    models: tuple[str, ...]  #: The `model_type` of its configurations.
    timed: bool = False  #: Steps in time are as long as their seconds (Qwen2.5-VL).
    by_frame: bool = False  #: A time stamp, which is text, stands before each frame of a video.
    merges_time: bool = False  #: Frames of a video are merged (ERNIE 4.5-VL).


#: As Transformers 5.23 computes them in `get_rope_index`.
FAMILIES = {
    "qwen2-vl": Family(models=("qwen2_vl",)),
    "qwen2.5-vl": Family(models=("qwen2_5_vl",), timed=True),
    "qwen3-vl": Family(models=("qwen3_vl", "qwen3_vl_moe"), by_frame=True),
    "glm4v": Family(models=("glm4v", "glm4v_moe"), by_frame=True),
    "ernie4.5-vl": Family(models=("ernie4_5_vl_moe",), merges_time=True),
}


@dataclass(frozen=True, kw_only=True)
class Vision:
    """Grids of patches with text before, between and after them."""

    family: str  #: One of `FAMILIES`.
    grids: tuple[tuple[int, int, int], ...]  #: Time, height and width in patches, before merging.
    text: tuple[int, ...] = ()  #: Tokens before the first grid, after it, ...; then 0.
    spatial_merge: int = 2  #: Patches that become one token, in height and in width.
    temporal_merge: int = 2  #: Frames that become one, where the family merges them.
    tokens_per_second: float = 2.0  #: Ids of a second, where the family times its steps.
    seconds: float = 1.0  #: Seconds between two steps in time.

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """Time, height and width of each grid in tokens."""
        by_time = self.temporal_merge if FAMILIES[self.family].merges_time else 1
        return [
            (t // (by_time if t > 1 else 1), h // self.spatial_merge, w // self.spatial_merge)
            for t, h, w in self.grids
        ]

    @property
    def step(self) -> float:
        """Distance of two steps in time."""
        return self.tokens_per_second * self.seconds if FAMILIES[self.family].timed else 1.0

    @property
    def ids(self) -> Ids:
        """Time, height and width of each token, (1, tokens, 3)."""
        return self.number()

    def number(
        self,
        *,
        after: str = "side",
        swap: bool = False,
        grid_from: int | None = None,
        frame: int = 0,
    ) -> Ids:
        """Return the ids; arguments other than the defaults are the mistakes of implementations.

        Args:
            after: What text goes on from: the longer "side" of the grid, its "largest" id, or the
                count of its "tokens".
            swap: Run through height and width in exchanged order.
            grid_from: What a grid begins with in place of the count so far.
            frame: Added to steps in time.
        """
        parts, at = [], 0
        for length, size in itertools.zip_longest(self.text, self.sizes):
            parts.append(np.repeat(np.arange(at, at + (length or 0))[:, None], 3, axis=1))
            at += length or 0
            if size is None:
                continue
            grid = self._grid(size, swap=swap, frame=frame)
            parts.append(grid + (at if grid_from is None else grid_from))
            along = {"side": max(size[1:]), "largest": int(grid.max()) + 1, "tokens": len(grid)}
            at += along[after]
        return np.concatenate(parts)[None]

    def _grid(self, size: tuple[int, int, int], *, swap: bool, frame: int) -> Ids:
        t, h, w = size
        # Transformers multiplies in float32, and drops what is left of the point.
        time = (np.arange(t, dtype=np.float32) * np.float32(self.step)).astype(np.int64) + frame
        axes = np.meshgrid(
            time, np.arange(w if swap else h), np.arange(h if swap else w), indexing="ij"
        )
        return np.stack([each.ravel() for each in axes], axis=1)

    def mistakes(self) -> Iterator[tuple[str, Ids]]:
        """Yield what implementations do wrong, and the ids that come of it."""
        ids = self.ids
        yield "height and width are exchanged", ids[..., [0, 2, 1]]
        yield "ids are those of the grid with height and width exchanged", self.number(swap=True)
        yield "time and width are exchanged", ids[..., [2, 1, 0]]
        yield "time and height are exchanged", ids[..., [1, 0, 2]]
        counted = np.repeat(np.arange(ids.shape[1])[None, :, None], 3, axis=2)
        yield "patches are counted like text, on all axes", counted
        yield "grids begin with 0, not with the count of the text before", self.number(grid_from=0)
        by_count = "the count of its tokens, not from its longer side"
        yield f"text goes on after a grid from {by_count}", self.number(after="tokens")
        largest = "its largest id, as in Transformers before version 5, not from its longer side"
        yield f"text goes on after a grid from {largest}", self.number(after="largest")
        yield "frames are counted from 1", self.number(frame=1)
        yield "frames are one too early", self.number(frame=-1)
        for family, facts in FAMILIES.items():
            other = replace(self, family=family)
            usual = not facts.by_frame or FAMILIES[self.family].by_frame
            if family != self.family and usual and other.sizes == self.sizes:
                yield f"ids are those of {family}, not of {self.family}", other.ids


def vision(
    grids: Sequence[Sequence[int]],
    family: str,
    *,
    text: Sequence[int] = (),
    seconds: float = 1.0,
    config: dict[str, Any] | None = None,
) -> Vision:
    """Return grids among text, with the sizes that a model's configuration has.

    Args:
        grids: Time, height and width of each image or video in patches, before merging.
        family: One of `FAMILIES`.
        text: Tokens of text before the first grid, after it, and so on.
        seconds: Seconds between two steps in time, where the family times them.
        config: The model's config.json.

    Raises:
        ArgumentError: A value out of range, or a grid that cannot be merged.
        ArgumentTypeError: Not whole numbers.
    """
    one_of("mrope", family, FAMILIES)
    lengths = tuple(at_least("text", each, 0) for each in text)
    if len(lengths) > len(grids) + 1:
        raise ArgumentError(
            f"text must have at most {len(grids) + 1} lengths, around {len(grids)} grids, "
            f"got {len(lengths)}"
        )
    facts = (config or {}).get("vision_config") or {}
    sizes = {
        name: at_least(key, facts.get(key, 2), 1)
        for name, key in (
            ("spatial_merge", "spatial_merge_size"),
            ("temporal_merge", "temporal_merge_size"),
        )
    }
    made = Vision(
        family=family,
        grids=tuple(_grid(each) for each in grids),
        text=lengths,
        **sizes,
        tokens_per_second=positive("tokens_per_second", facts.get("tokens_per_second", 2.0)),
        seconds=positive("seconds per grid", seconds),
    )
    _check_grids(made)
    return made


def _grid(values: Sequence[int]) -> tuple[int, int, int]:
    if len(values) != 3:
        raise ArgumentError(f"grid must be time, height and width, got {quote(list(values))}")
    t, h, w = (at_least("grid", each, 1) for each in values)
    return t, h, w


def _check_grids(made: Vision) -> None:
    """Refuse grids that the family has no ids for."""
    merge, facts = made.spatial_merge, FAMILIES[made.family]
    for t, h, w in made.grids:
        if h % merge or w % merge:
            raise ArgumentError(
                f"height and width of a grid must be multiples of {merge}, which become one "
                f"token, got {t},{h},{w}"
            )
        if facts.by_frame and t > 1:
            raise ArgumentError(
                f"{made.family} has a time stamp before each frame, so that a grid must have one, "
                f"got {t},{h},{w}",
                "give each frame as a grid of its own, and the tokens of its time stamp as text",
            )
        if facts.merges_time and t > 1 and t % made.temporal_merge:
            raise ArgumentError(
                f"frames of a video must be a multiple of {made.temporal_merge}, which become "
                f"one, got {t},{h},{w}"
            )


def axis_names(count: int) -> tuple[str, ...]:
    """Return what the coordinates of a position are called."""
    if count == 3:
        return ("time", "height", "width")
    return tuple(f"axis {axis}" for axis in range(count))


def family_of(model_type: str | None) -> str | None:
    """Return the family of a model; None if its ids are not known."""
    return next((name for name, each in FAMILIES.items() if model_type in each.models), None)
