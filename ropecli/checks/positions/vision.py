"""Position ids of images and videos among text, in time, height and width (M-RoPE)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product, zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Index
from ropecli.checks.positions.rows import Rows, count_tokens, of_lengths
from ropecli.errors import ArgumentError
from ropecli.names import one_of, quote
from ropecli.numbers import at_least, positive


@dataclass(frozen=True, kw_only=True)
class Family:
    """Rules by which models of a family number the patches of an image or a video."""

    models: tuple[str, ...]  #: The `model_type` of its configurations.
    per_second: float | None = None  #: Ids in a second, by default, where time is in seconds.
    released: float | None = None  #: Ids in a second of the released files, where they say another.
    fractions: bool = False  #: Time is not rounded down to a whole number.
    by_seconds: bool = False  #: A frame is multiplied by its seconds before ids in a second.
    by_frame: bool = False  #: A time stamp, which is text, stands before each frame of a video.
    merges_time: bool = False  #: Frames of a video are merged (ERNIE 4.5-VL).
    merges_space: bool = True  #: Patches of a frame are merged, as the configuration says.
    newlines: bool = False  #: A token ends each line of patches.
    frames_apart: bool = False  #: Each frame is numbered beyond all of the one before, on all axes.
    still: bool = False  #: Images only.
    numbers_images: bool = (
        False  #: Width, height and number of the image, next to the text's count.
    )
    largest: bool = False  #: Text goes on from the largest id of a grid, not from its longer side.
    slices: bool = False  #: An image has slices on the same canvas, and marks around it and each.


_OMNI: dict[str, Any] = {"per_second": 25.0, "by_seconds": True, "largest": True}
#: As Transformers 5.24 computes them in `get_rope_index`, and diffusers 0.42.1 in its models.
FAMILIES = {
    "qwen2-vl": Family(models=("qwen2_vl", "paddleocr_vl")),
    "qwen2.5-vl": Family(models=("qwen2_5_vl",), per_second=4.0, released=2.0),
    "qwen2.5-omni": Family(models=("qwen2_5_omni", "qwen2_5_omni_thinker"), **_OMNI),
    "qwen3-omni": Family(
        models=("qwen3_omni_moe", "qwen3_omni_moe_thinker"), **_OMNI, fractions=True
    ),
    "qwen3-vl": Family(
        models=(
            *("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp"),
            *("cohere_compass", "cosmos3_edge", "cosmos3_omni"),
        ),
        by_frame=True,
    ),
    "glm4v": Family(models=("glm4v", "glm4v_moe", "glm46v", "glm_ocr"), by_frame=True),
    "glm-image": Family(models=("glm_image",), merges_space=False, still=True),
    "ernie4.5-vl": Family(models=("ernie4_5_vl_moe",), merges_time=True),
    "hunyuan-vl": Family(models=("hunyuan_vl",), newlines=True, still=True, numbers_images=True),
    "hy-v4-vl": Family(models=("hy_v4_vl",), newlines=True, frames_apart=True, largest=True),
    "minicpm-v": Family(models=("minicpmv4_7",), largest=True, slices=True),
    "wan": Family(
        models=(
            *("WanTransformer3DModel", "WanVACETransformer3DModel", "SkyReelsV2Transformer3DModel"),
            *("AnyFlowTransformer3DModel", "HunyuanVideoTransformer3DModel"),
            *("HunyuanVideo15Transformer3DModel", "MotifVideoTransformer3DModel"),
        ),
        merges_space=False,
    ),
}
AXES = ("time", "height", "width")
IMAGE_AXES = ("text", "width", "height", "image")
#: Engines that number a video otherwise than the family does in Transformers 5.24.
STACKS = ("transformers", "transformers-4", "vllm", "llama.cpp")
FROM_LARGEST = ("transformers-4", "vllm")  #: Text goes on from the largest id of a grid.
#: Axes that stand before or after the three: those of text in Transformers, and zeros in llama.cpp.
FORMS = {"": AXES, "text": ("text", *AXES), "llama.cpp": (*AXES, "the unused axis")}


class Sample(NamedTuple):
    """Grids of one document, with text before, between and after them."""

    text: tuple[int, ...]  #: Tokens before the first grid, after it, and so on to the last one.
    sizes: tuple[tuple[int, int, int], ...]  #: Time, height and width of each grid in tokens.
    seconds: tuple[float, ...]  #: Between two steps in time of each grid.
    slices: tuple[tuple[int, ...], ...] = ()  #: Newlines, then rows, columns, height, width.

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        marked = (n + 2 + r * c * (h * w + 2) + max(r - 1, 0) for n, r, c, h, w in self.slices)
        return sum(self.text) + sum(t * h * w for t, h, w in self.sizes) + sum(marked)


@dataclass(frozen=True, kw_only=True, eq=False)
class Vision(Rows):
    """Rows of documents with grids of patches in them."""

    family: str  #: One of `FAMILIES`.
    samples: tuple[Sample, ...]  #: What each document holds.
    per_second: float  #: Ids in a second, where the family times frames.
    largest: bool  #: Text goes on from the largest id of a grid.
    assumed: bool = False  #: No configuration says how many ids are in a second.
    form: str = ""  #: One of `FORMS`.

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the coordinates of a position."""
        return IMAGE_AXES if FAMILIES[self.family].numbers_images else FORMS[self.form]

    @property
    def ids(self) -> NDArray[Any]:
        """Coordinates of each token, (rows, tokens, axes); those of padding are 0."""
        return self._number()

    def readings(
        self, stack: str | None, shape: tuple[int, ...] = ()
    ) -> list[tuple[Rows, str | None]]:
        """Return what ids of a shape may be, as engines number grids, with the engine's name.

        All engines are tried without a `stack`, and all rates without a configuration.
        """
        facts = FAMILIES[self.family]
        if facts.numbers_images:
            return [(self, None)]
        forms = {"": "", "text": "", "llama.cpp": "with a last axis of 0, as in llama.cpp"}
        if stack == "llama.cpp":
            forms = {stack: ""}
        elif stack is not None:
            del forms["llama.cpp"]
        ends = (*shape[:1], *shape[-1:])
        fitting = [form for form in forms if len(FORMS[form]) in ends] or [*forms][:1]
        counts = {self.largest: f"as {stack} counts" if stack else ""}
        if stack is None and self._has_video:
            counts.setdefault(
                True, "text goes on from the largest id, as in vLLM and Transformers 4"
            )
        rates = {self.per_second: ""}
        if self.assumed:
            rates = {value: f"{value:g} ids in a second" for value in self._rates} | rates
        return [
            (
                replace(self, form=form, largest=largest, per_second=rate),
                ", ".join(filter(None, (forms[form], counts[largest], rates[rate]))) or None,
            )
            for form, largest, rate in product(fitting, counts, rates)
        ]

    def notes(self, *, given_seconds: bool = False, judged: bool = False) -> tuple[str, ...]:
        """Return what was assumed of time, and whether seconds have an effect."""
        if not self._rates:
            return (f"seconds have no effect on {self.family}",) if given_seconds else ()
        said = []
        if self.assumed:
            tried = self._rates if judged else self._rates[:1]
            either = " or ".join(f"{rate:g}" for rate in tried)
            said.append(f"assumed: {either} ids in a second, as no configuration says it")
        if not given_seconds and self._has_video:
            said.append("assumed: 1 second between steps in time, as no seconds are given")
        return tuple(said)

    @property
    def _rates(self) -> tuple[float, ...]:
        """Ids in a second: those that count here, and others that files of the family may say."""
        facts = FAMILIES[self.family]
        rates = (self.per_second, facts.per_second, facts.released)
        return () if facts.per_second is None else tuple(dict.fromkeys(filter(None, rates)))

    @property
    def _has_video(self) -> bool:
        return any(t > 1 for sample in self.samples for t, _, _ in sample.sizes)

    def _number(self, *, joined: bool = False, **mistake: Any) -> NDArray[Any]:
        """Return the ids; arguments other than the defaults are the mistakes of implementations."""
        samples = (_join(self.samples),) if joined else self.samples
        facts, images, parts = FAMILIES[self.family], 0, []
        for sample in samples:
            ids = self._sample(sample, **mistake)
            if facts.numbers_images:
                ids = _number_images(sample, images)
                images += len(sample.sizes)
            parts.append(ids)
        every = np.concatenate(parts)
        ids = np.zeros((*self.document.shape, every.shape[1]), every.dtype)
        ids[self.document >= 0] = every
        extra = np.zeros((*self.document.shape, 1), np.int64)
        if self.form == "text":
            extra[..., 0] = count_tokens(self.document * (0 if joined else 1))
            return np.concatenate([extra, ids], axis=-1)
        return np.concatenate([ids, extra], axis=-1) if self.form else ids

    def _sample(
        self,
        sample: Sample,
        *,
        timed: bool | None = None,
        seconds: Callable[[float], float] = float,
        after: str | None = None,
        swap: bool = False,
        grid_from: int | None = None,
        frame: int = 0,
        scaled_start: bool = False,
        newlines: int = 0,
    ) -> NDArray[Any]:
        """Return time, height and width of the tokens of a document.

        Args:
            sample: What it holds.
            timed: Whether steps in time are as long as their seconds; the family's by default.
            seconds: What is done with those between two steps.
            after: What text goes on from: the longer "side" of the grid, its "largest" id, or the
                count of its "tokens".
            swap: Run through height and width in exchanged order.
            grid_from: What a grid begins with in place of the count so far.
            frame: Added to steps in time.
            scaled_start: The count so far is multiplied by the length of a step, too.
            newlines: Tokens of text after each grid that are taken for newlines, or the reverse.
        """
        facts = FAMILIES[self.family]
        after = after or ("largest" if self.largest else "side")
        number: Any = np.float32 if facts.fractions else np.int64
        parts, at, taken = list[NDArray[Any]](), number(0), 0
        for length, size, given, slices, after_it in zip_longest(*sample, sample.text[1:]):
            words = np.arange(length - taken, dtype=number) + at
            parts.append(np.repeat(words[:, None], 3, axis=1))
            at += len(words)
            if size is None:
                break
            t, h, w = size
            second = seconds(given)
            grid: NDArray[Any] = np.indices((t, w, h) if swap else size).reshape(3, -1).T
            is_timed = facts.per_second is not None if timed is None else timed
            start = at if grid_from is None else number(grid_from)
            if slices:
                taken = max(min(newlines, after_it), -slices[0])
                cut = (slices[0] + taken, *slices[1:])
                grid = _with_slices((w, h) if swap else (h, w), cut, start, swap)
            if is_timed:
                # Transformers multiplies in float32, and drops what is left of the point.
                step = np.float32(self.per_second * second)
                time = grid[:, 0].astype(np.float32) + (np.float32(start) if scaled_start else 0)
                by_seconds = time * np.float32(second) * np.float32(self.per_second)
                time = by_seconds if facts.by_seconds else time * step
                time = time if facts.fractions else np.floor(time).astype(np.int64)
                grid = np.column_stack([time - (start if scaled_start else 0), grid[:, 1:]])
            if facts.frames_apart:
                grid[:, 0] *= max(h, w)
                grid[:, 1:] += grid[:, :1]
            grid[:, 0] += frame
            grid = grid.astype(number)
            parts.append(grid + start)
            largest = grid.max() + at + number(1)  # in the order of Transformers' own roundings
            at = {"side": at + max(h, w), "largest": largest, "tokens": at + len(grid)}[after]
        return np.concatenate(parts)

    def mistakes(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield what implementations do wrong, and the ids that come of it."""
        own, names = FAMILIES[self.family], FORMS[self.form]
        if len(self.samples) > 1:
            joined = "documents continue the count of the one before"
            yield joined, self._number(joined=True)
        if not own.numbers_images:
            ids, first = self.ids, names.index("time")
            for a, b in ((1, 2), (0, 2), (0, 1)):
                order = list(range(len(names)))
                order[first + a], order[first + b] = first + b, first + a
                yield f"{AXES[a]} and {AXES[b]} are exchanged", ids[..., order]
            swapped = "ids are those of the grid with height and width exchanged"
            yield swapped, self._number(swap=True)
            yield (
                "grids begin with 0, not with the count of the text before",
                self._number(grid_from=0),
            )
            place = "its largest id" if self.largest else "its longer side"
            by_count = f"the count of its tokens, not from {place}"
            yield f"text goes on after a grid from {by_count}", self._number(after="tokens")
            other = "side" if self.largest else "largest"
            wrong = (
                "its longer side, as in Transformers 5"
                if self.largest
                else ("its largest id, as in vLLM and Transformers 4")
            )
            sentence = f"text goes on after a grid from {wrong}, not from {place}"
            yield sentence, self._number(after=other)
            yield "frames are counted from 1", self._number(frame=1)
            yield "frames are one too early", self._number(frame=-1)
        yield "patches are counted like text, on all axes", count_tokens(self.document)
        if own.slices:
            yield "newlines after images are counted like text", self._number(newlines=-1)
            yield "a newline follows each image, which no grid has", self._number(newlines=1)
        if own.per_second is not None:
            yield from self._mistakes_in_time()
        for family, other_family in FAMILIES.items():
            alike = ("by_frame", "still", "merges_time", "merges_space", "newlines", "slices")
            same = all(getattr(other_family, name) == getattr(own, name) for name in alike)
            if same and (other_family.per_second is None) != (own.per_second is None):
                sentence = f"ids are those of {family}, not of {self.family}"
                yield sentence, self._number(timed=other_family.per_second is not None)

    def _mistakes_in_time(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield what is done wrong with seconds, and the ids that come of it."""
        yield "frames begin at the count so far times their step", self._number(scaled_start=True)
        for rate in self._rates[1:]:
            sentence = f"a second has {rate:g} ids, not {self.per_second:g}"
            yield sentence, replace(self, per_second=rate).ids
        once = "seconds are not passed, so that a step is one second"
        yield once, self._number(seconds=lambda _: 1.0)
        yield "fractions of seconds are cut", self._number(seconds=np.floor)


def _join(samples: Sequence[Sample]) -> Sample:
    """Return documents as one."""
    text = list(samples[0].text)
    for sample in samples[1:]:
        text[-1] += sample.text[0]
        text += sample.text[1:]
    of_grids = zip(*(sample[1:] for sample in samples), strict=True)
    return Sample(tuple(text), *(tuple(chain(*values)) for values in of_grids))


def _with_slices(size: tuple[int, int], slices: tuple[int, ...], start: int, swap: bool) -> Index:
    """Return ids, less their start, of an image, its slices, marks around each, and newlines."""
    newlines, rows, columns, *inner = slices
    height, width = inner[::-1] if swap else inner
    tall, wide = (rows * height, columns * width) if rows else size
    image = product([0], _spread(tall, size[0]), _spread(wide, size[1]))
    before = -min(start, 1)  # the mark in front is outside the canvas, but not below 0
    parts: list[Iterable[tuple[int, ...]]] = [[(0, before, before)], image, [(0, tall, wide)]]
    for row, column in np.ndindex(rows, columns):
        y, x = row * height, column * width
        if row and not column:
            parts.append([(0, y - 1, wide)])  # the newline between two rows
        inside = product([0], range(y, y + height), range(x, x + width))
        parts += [[(0, y, x)], inside, [(0, y + height - 1, x + width - 1)]]
    return np.array([*chain(*parts), *[(0, 0, 0)] * newlines])


def _spread(length: int, count: int) -> Index:
    """Return whole numbers from 0 to length - 1, rounded in float32 as torch.linspace rounds."""
    index, last = np.arange(count, dtype=np.float32), np.float32(length - 1)
    step = last / np.float32(max(count - 1, 1))
    ids = np.where(index < count // 2, step * index, last - step * index[::-1])
    return np.rint(ids if count > 1 else [0]).astype(np.int64)


def _number_images(sample: Sample, images: int) -> Index:
    """Return the text's count, width, height and number of the image of each token."""
    ids = np.repeat(np.arange(sample.tokens)[:, None], 4, axis=1)
    at = 0
    for index, (length, size) in enumerate(zip(sample.text, sample.sizes, strict=False)):
        at += length
        t, h, w = size
        _, row, column = np.indices((t, h, w)).reshape(3, -1)
        ids[at : at + t * h * w, 1:] = np.stack(
            [column, row, np.full_like(row, images + index)], axis=1
        )
        at += t * h * w
    return ids


def vision(
    grids: Sequence[Sequence[int]],
    family: str | None,
    rows: Rows | None = None,
    *,
    text: Sequence[int] | Sequence[Sequence[int]] = (),
    seconds: float | Sequence[float] | None = None,
    config: dict[str, Any] | None = None,
    stack: str | None = None,
) -> Vision:
    """Return grids among text in tokens, as a configuration merges patches; see `positions`."""
    if family is None:
        raise ArgumentError("grids need mrope, the family of models that numbers them")
    facts = FAMILIES[one_of("mrope", family, FAMILIES)]
    if stack is not None:
        one_of("stack", stack, STACKS)
    thinker = dict((config or {}).get("thinker_config") or config or {})
    given = thinker.get("vision_config") or {}
    space, time = (
        at_least(key, given.get(key, 2), 1) for key in ("spatial_merge_size", "temporal_merge_size")
    )
    if facts.slices:
        space = 2 if thinker.get("downsample_mode") == "4x" else 4
    slices = [_merge_slices(family, grid[3:], space) for grid in grids if facts.slices]
    sizes = [_merge(family, grid[:3] if facts.slices else grid, space, time) for grid in grids]
    second = 1.0 if seconds is None else seconds
    every = [second] * len(sizes) if isinstance(second, int | float) else list(second)
    if len(every) != len(sizes):
        raise ArgumentError(
            f"seconds must be one number, or one for each of {len(sizes)} grids, got {len(every)}"
        )
    every = [positive("seconds per grid", rate) for rate in every]
    per_second = facts.per_second or 1.0
    if config is None and facts.released is not None:
        per_second = facts.released
    for key in ("tokens_per_second", "position_id_per_seconds"):
        value = given.get(key, thinker.get(key))
        per_second = per_second if value is None else positive(key, value)
    samples, at = [], 0
    for lengths in _texts(text, len(sizes)):
        end = at + len(lengths) - 1
        held_slices = tuple(slices[at:end])
        samples.append(Sample(lengths, tuple(sizes[at:end]), tuple(every[at:end]), held_slices))
        at = end
    counts = [sample.tokens for sample in samples]
    if not all(counts):
        raise ArgumentError("grids and text must have at least one token, got none")
    held = of_lengths(counts, None) if rows is None else rows
    asked = held.documents.length.tolist()
    if asked != counts:
        raise ArgumentError(
            "documents must be as long as their text and grids, "
            f"{_list(counts)}, got {_list(asked)} tokens"
        )
    return Vision(
        document=held.document,
        separated=held.separated,
        family=family,
        samples=tuple(samples),
        per_second=per_second,
        largest=facts.largest or stack in FROM_LARGEST,
        assumed=config is None and facts.per_second is not None,
    )


def _list(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts[:4])) + (", ..." if len(counts) > 4 else "")


def _texts(text: Sequence[int] | Sequence[Sequence[int]], grids: int) -> Iterator[tuple[int, ...]]:
    """Yield the tokens of text around the grids of each document."""
    nested = any(isinstance(count, Iterable) for count in text)
    given: Any = text if nested else [text]
    rows = [[at_least("text", count, 0) for count in row] for row in given]
    if nested and not (all(rows) and sum(len(row) - 1 for row in rows) == grids):
        raise ArgumentError(
            f"text must have a length more than there are grids in each document, {grids} in all, "
            f"got {quote([list(row) for row in rows])}"
        )
    if not nested and len(rows[0]) > grids + 1:
        raise ArgumentError(
            f"text must have at most {grids + 1} lengths, around {grids} grids, got {len(rows[0])}"
        )
    for row in rows:
        yield (*row, *[0] * (0 if nested else grids + 1 - len(row)))


def _merge_slices(family: str, given: Sequence[int], space: int) -> tuple[int, ...]:
    """Return newlines after a grid, rows and columns of its slices, and their size in tokens."""
    if len(given) not in (0, 1, 5):
        raise ArgumentError(
            f"grid of {family} must be time, height and width; newlines after it; and rows, "
            f"columns, height and width of slices, got {3 + len(given)} numbers"
        )
    newlines = at_least("newlines", given[0], 0) if len(given) else 0
    if len(given) < 5:
        return newlines, 0, 0, 0, 0
    rows, columns = (at_least("slices", count, 1) for count in given[1:3])
    return newlines, rows, columns, *_merge(family, (1, *given[3:]), space, 1)[1:]


def _merge(family: str, grid: Sequence[int], space: int, time: int) -> tuple[int, int, int]:
    """Return the size of a grid in tokens; refuse one that the family has no ids for."""
    if len(grid) != 3:
        raise ArgumentError(f"grid must be time, height and width, got {quote(list(grid))}")
    t, h, w = (at_least("grid", size, 1) for size in grid)
    facts, got = FAMILIES[family], f"got {t},{h},{w}"
    space = space if facts.merges_space else 1
    if h % space or w % space:
        raise ArgumentError(
            f"height and width of a grid must be multiples of {space}, which become one token, "
            f"{got}"
        )
    if facts.still and t > 1:
        raise ArgumentError(f"{family} has images only, so that a grid must have one frame, {got}")
    if facts.slices and t > 1:
        raise ArgumentError(f"each frame of {family} is a grid of its own, {got}")
    if facts.by_frame and t > 1:
        raise ArgumentError(
            f"{family} has a time stamp before each frame, so that a grid must have one, {got}",
            "give each frame as a grid of its own, and the tokens of its time stamp as text",
        )
    if facts.merges_time and t > 1 and t % time:
        raise ArgumentError(
            f"frames of a video must be a multiple of {time}, which become one, {got}"
        )
    frames = t // time if facts.merges_time and t > 1 else t
    return frames, h // space, w // space + facts.newlines


def family_of(model_type: str | None) -> str | None:
    """Return the family of a model; None if its ids are not known."""
    return next((name for name, family in FAMILIES.items() if model_type in family.models), None)
