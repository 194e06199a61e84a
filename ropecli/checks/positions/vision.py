"""Position ids of images and videos among text, in time, height and width (M-RoPE)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ropecli.arrays import Index
from ropecli.errors import ArgumentError
from ropecli.names import one_of, quote
from ropecli.numbers import at_least, positive


@dataclass(frozen=True, kw_only=True)
class Family:
    """Rules by which models of a family number the patches of an image or a video."""

    models: tuple[str, ...]  #: The `model_type` of its configurations.
    timed: bool = False  #: Steps in time are as long as their seconds (Qwen2.5-VL).
    by_frame: bool = False  #: A time stamp, which is text, stands before each frame of a video.
    merges_time: bool = False  #: Frames of a video are merged (ERNIE 4.5-VL).
    merges_space: bool = True  #: Patches of a frame are merged, as the configuration says.


#: As Transformers 5.24 computes them in `get_rope_index`, and diffusers 0.42.1 in its models.
FAMILIES = {
    "qwen2-vl": Family(models=("qwen2_vl",)),
    "qwen2.5-vl": Family(models=("qwen2_5_vl",), timed=True),
    "qwen3-vl": Family(models=("qwen3_vl", "qwen3_vl_moe"), by_frame=True),
    "glm4v": Family(models=("glm4v", "glm4v_moe"), by_frame=True),
    "ernie4.5-vl": Family(models=("ernie4_5_vl_moe",), merges_time=True),
    "wan": Family(
        models=(
            *("WanTransformer3DModel", "WanVACETransformer3DModel", "SkyReelsV2Transformer3DModel"),
            *("AnyFlowTransformer3DModel", "HunyuanVideoTransformer3DModel"),
            *("HunyuanVideo15Transformer3DModel", "MotifVideoTransformer3DModel"),
        ),
        merges_space=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Vision:
    """Grids of patches with text before, between and after them."""

    family: str  #: One of `FAMILIES`.
    sizes: tuple[tuple[int, int, int], ...]  #: Time, height and width of each grid in tokens.
    text: tuple[int, ...]  #: Tokens before the first grid, after it, and so on to the last one.
    timed_step: float  #: Ids between two steps in time, where the family times them.

    @property
    def ids(self) -> Index:
        """Time, height and width of each token, (1, tokens, 3)."""
        return self._number()

    def _number(
        self,
        *,
        timed: bool | None = None,
        after: str = "side",
        swap: bool = False,
        grid_from: int | None = None,
        frame: int = 0,
    ) -> Index:
        """Return the ids; arguments other than the defaults are the mistakes of implementations.

        Args:
            timed: Whether steps in time are as long as their seconds; the family's by default.
            after: What text goes on from: the longer "side" of the grid, its "largest" id, or the
                count of its "tokens".
            swap: Run through height and width in exchanged order.
            grid_from: What a grid begins with in place of the count so far.
            frame: Added to steps in time.
        """
        timed = FAMILIES[self.family].timed if timed is None else timed
        step = np.float32(self.timed_step if timed else 1)
        parts, at = [], 0
        for length, size in zip(self.text, (*self.sizes, None), strict=True):
            parts.append(np.repeat(np.arange(at, at + length)[:, None], 3, axis=1))
            at += length
            if size is None:
                break
            t, h, w = size
            grid = np.indices((t, w, h) if swap else (t, h, w)).reshape(3, -1).T
            # Transformers multiplies in float32, and drops what is left of the point.
            grid[:, 0] = grid[:, 0].astype(np.float32) * step
            grid[:, 0] += frame
            parts.append(grid + (at if grid_from is None else grid_from))
            at += {"side": max(h, w), "largest": int(grid.max()) + 1, "tokens": len(grid)}[after]
        return np.concatenate(parts)[None]

    def mistakes(self) -> Iterator[tuple[str, Index]]:
        """Yield what implementations do wrong, and the ids that come of it."""
        ids, own = self.ids, FAMILIES[self.family]
        yield "height and width are exchanged", ids[..., [0, 2, 1]]
        yield "ids are those of the grid with height and width exchanged", self._number(swap=True)
        yield "time and width are exchanged", ids[..., [2, 1, 0]]
        yield "time and height are exchanged", ids[..., [1, 0, 2]]
        yield "patches are counted like text, on all axes", np.arange(ids.shape[1])[None]
        yield "grids begin with 0, not with the count of the text before", self._number(grid_from=0)
        by_count = "the count of its tokens, not from its longer side"
        yield f"text goes on after a grid from {by_count}", self._number(after="tokens")
        largest = "its largest id, as in Transformers before version 5, not from its longer side"
        yield f"text goes on after a grid from {largest}", self._number(after="largest")
        yield "frames are counted from 1", self._number(frame=1)
        yield "frames are one too early", self._number(frame=-1)
        for family, other in FAMILIES.items():
            merges = other.merges_time, other.merges_space
            if other.timed != own.timed and merges == (own.merges_time, own.merges_space):
                sentence = f"ids are those of {family}, not of {self.family}"
                yield sentence, self._number(timed=other.timed)


def vision(
    grids: Sequence[Sequence[int]],
    family: str | None,
    *,
    text: Sequence[int] = (),
    seconds: float = 1.0,
    config: dict[str, Any] | None = None,
) -> Vision:
    """Return grids among text in tokens, as a configuration merges patches; see `positions`."""
    if family is None:
        raise ArgumentError("grids need mrope, the family of models that numbers them")
    one_of("mrope", family, FAMILIES)
    lengths = [at_least("text", each, 0) for each in text]
    if len(lengths) > len(grids) + 1:
        raise ArgumentError(
            f"text must have at most {len(grids) + 1} lengths, around {len(grids)} grids, "
            f"got {len(lengths)}"
        )
    lengths += [0] * (len(grids) + 1 - len(lengths))
    if not grids and not sum(lengths):
        raise ArgumentError("grids and text must have at least one token, got none")
    facts = (config or {}).get("vision_config") or {}
    space, time = (
        at_least(key, facts.get(key, 2), 1) for key in ("spatial_merge_size", "temporal_merge_size")
    )
    sizes = tuple(_merge(family, each, space, time) for each in grids)
    second = positive("tokens_per_second", facts.get("tokens_per_second", 2.0))
    step = second * positive("seconds per grid", seconds)
    return Vision(family=family, sizes=sizes, text=tuple(lengths), timed_step=step)


def _merge(family: str, grid: Sequence[int], space: int, time: int) -> tuple[int, int, int]:
    """Return the size of a grid in tokens; refuse one that the family has no ids for."""
    if len(grid) != 3:
        raise ArgumentError(f"grid must be time, height and width, got {quote(list(grid))}")
    t, h, w = (at_least("grid", each, 1) for each in grid)
    facts, got = FAMILIES[family], f"got {t},{h},{w}"
    space = space if facts.merges_space else 1
    if h % space or w % space:
        raise ArgumentError(
            f"height and width of a grid must be multiples of {space}, which become one token, "
            f"{got}"
        )
    if facts.by_frame and t > 1:
        raise ArgumentError(
            f"{family} has a time stamp before each frame, so that a grid must have one, {got}",
            "give each frame as a grid of its own, and the tokens of its time stamp as text",
        )
    if not facts.merges_time or t == 1:
        return t, h // space, w // space
    if t % time:
        raise ArgumentError(
            f"frames of a video must be a multiple of {time}, which become one, {got}"
        )
    return t // time, h // space, w // space


def axis_names(count: int) -> tuple[str, ...]:
    """Return what the coordinates of a position are called."""
    if count == 3:
        return ("time", "height", "width")
    return tuple(f"axis {axis}" for axis in range(count))


def family_of(model_type: str | None) -> str | None:
    """Return the family of a model; None if its ids are not known."""
    return next((name for name, each in FAMILIES.items() if model_type in each.models), None)
