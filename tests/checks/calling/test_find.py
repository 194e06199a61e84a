"""Messages on an implementation that can't be called, and arguments that its code may lack."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers import slow_rows
from judging import SMALL, failures, judge_small, turn_small

from ropecli.checks.implementation.calling.find import CallError
from ropecli.checks.implementation.check import check
from ropecli.errors import FileError

SOURCE = """
import numpy as np

class Ids:
    def __init__(self, width_of_each, theta): ...
    def __call__(self, x, ids): return x

class Methods:
    def __init__(self, dim): ...
    def rotate(self, x, dropout): return x

class Outer:
    @staticmethod
    def turn(x, positions, *, axis): return x

def tables(positions, dim): return np.cos(positions)
def number(x, positions, eps): return x
def fails(x, positions): raise ValueError("no")
"""


@pytest.mark.parametrize(
    ("name", "words", "call"),
    [
        (
            "Ids",
            "its parameter 'width_of_each' has no known meaning; give it with --init "
            "width_of_each=VALUE, or the call with --call",
            "Ids(width_of_each, theta)(x, ids)",
        ),
        (
            "Methods",
            "parameter 'dropout' has no known meaning in its method rotate; give the call with "
            "--call",
            "Methods(dim).rotate(x, dropout)",
        ),
        (
            "Outer.turn",
            "its parameter 'axis' has no known meaning; give it with --init axis=VALUE, or the "
            "call with --call",
            "Outer.turn(x, positions, axis=axis)",
        ),
        (
            "tables",
            "none of its parameters (positions, dim) is known to be vectors; name the function "
            "that rotates by its result with --with, or give the call with --call",
            "tables(positions, dim)",
        ),
        (
            "number",
            "its parameter 'eps' has no known meaning; give it with --init eps=VALUE, or the "
            "call with --call",
            "number(x, positions, eps)",
        ),
        *slow_rows(
            ("fails", "give the call with --call, or an adapter", "fails(x, positions)"),
        ),
    ],
)
def test_what_to_give_is_said(name: str, words: str, call: str, tmp_path: Path) -> None:
    file = tmp_path / "of_somebody.py"
    file.write_text(SOURCE)
    with pytest.raises(CallError) as caught:
        judge_small(f"{file}:{name}")
    spelled = {"init": "--init", "call": "--call", "apply_with": "--with"}
    assert caught.value.spell(spelled.__getitem__).endswith(words)
    first = name.partition(".")[0]
    lines = caught.value.adapter.splitlines()
    assert lines[1] == f"from of_somebody import {first}"
    assert lines[-1] == f"    return {call}"


def test_what_no_module_holds_is_in_an_adapter_by_its_name() -> None:
    def rotate(x: Any, positions: Any, eps: float) -> Any:
        return x

    with pytest.raises(CallError) as caught:
        judge_small(rotate)
    assert "\nimport" not in caught.value.adapter
    assert "rotate(x, positions, eps)" in caught.value.adapter


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scaling_config", "freq_config", "config"])
def test_a_configuration_may_be_none(name: str) -> None:
    names: dict[str, Any] = {"turn": turn_small}
    exec(
        f"def rotate(x, positions, {name}):\n"
        f"    assert {name} is None\n"
        "    return turn(x, positions)\n",
        names,
    )
    assert failures(judge_small(names["rotate"], expect=SMALL)) == []


@pytest.mark.slow
def test_a_class_may_be_told_how_many_heads_there_are() -> None:
    """An instance takes as many heads as it was made for, so that each number has its own."""
    made = []

    class Rope:
        def __init__(self, head_dim: int, num_heads: int) -> None:
            self.heads = num_heads
            made.append(num_heads)

        def __call__(self, x: Any, positions: Any) -> Any:
            assert x.shape[1] == self.heads
            return turn_small(x, positions)

    for options in ({}, {"call": "Rope(head_dim, num_heads=heads)(x, positions)"}):
        assert failures(judge_small(Rope, expect=SMALL, **options)) == []
        assert len(np.unique(made)) > 1
        made.clear()


class OfIds:
    """Cosines and sines of each coordinate of ids (sequence, coordinates), side by side."""

    def __init__(self, theta: float, axes_dim: Any) -> None:
        self.theta, self.axes_dim = theta, axes_dim

    def forward(self, ids: Any) -> Any:
        shares = [self.axes_dim[i] for i in range(ids.shape[-1])]
        frequencies = [self.theta ** (-np.arange(0, d, 2) / d) for d in shares]
        angles = [np.outer(ids[:, i], each) for i, each in enumerate(frequencies)]
        columns = np.repeat(np.concatenate(angles, axis=-1), 2, axis=-1)
        return np.cos(columns), np.sin(columns)


class OfGrid:
    """Sines and cosines of all points of a grid, in one array."""

    def __init__(self, dim: int, feat_shape: Any = (14, 14)) -> None:
        points = np.stack([each.ravel() for each in np.indices(feat_shape)], axis=-1)
        shares = [dim // len(feat_shape)] * len(feat_shape)
        cosine, sine = OfIds(1e4, shares).forward(points)
        self.table = np.concatenate([sine, cosine], axis=-1)

    def get_embed(self) -> Any:
        return self.table


def by_pair(x: Any, freqs_cis: Any) -> Any:
    cosine, sine = freqs_cis
    beside = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return (x * cosine + beside * sine).astype(x.dtype)


def by_one_array(x: Any, emb: Any) -> Any:
    return by_pair(x, np.split(emb, 2, axis=-1)[::-1])


AXIAL: dict[str, Any] = {"head_dim": 16, "context_length": 64, "dtypes": "float32"}


@pytest.mark.parametrize(
    ("target", "other", "axes", "call"),
    [
        (
            OfIds,
            by_pair,
            3,
            "by_pair(x, OfIds(theta=base, axes_dim=axes_dims).forward(positions))",
        ),
        *slow_rows(
            (
                OfGrid,
                by_one_array,
                2,
                "by_one_array(x, OfGrid(dim=head_dim, feat_shape=grid).get_embed()[places])",
            ),
        ),
    ],
)
def test_tables_of_several_coordinates_are_given_to_the_other(
    target: Any, other: Any, axes: int, call: str
) -> None:
    laws = ["rotation", "axes", "offset positions", "two instances"]
    given: dict[str, Any] = {**AXIAL, "axes": axes, "select": laws, "isolated": False}
    verdict = check(target, apply_with=other, **given)
    assert failures(verdict) == []
    assert verdict.convention.call == call

    def wrong(x: Any, freqs_cis: Any) -> Any:
        rows = other(x, freqs_cis)
        rows[..., -1, :] = x[..., -1, :]
        return rows

    wrong.__name__ = other.__name__
    assert "rotation" in failures(check(target, apply_with=wrong, **given))


@pytest.mark.slow
def test_coordinates_are_asked_for() -> None:
    class OfThree(OfIds):
        def forward(self, ids: Any) -> Any:
            assert ids.shape[-1] == len(self.axes_dim) == 3
            return super().forward(ids)

    call = "by_pair(x, OfThree(theta=base, axes_dim=axes_dims).forward(positions))"
    given: dict[str, Any] = {**AXIAL, "call": call, "isolated": False}
    with pytest.raises(CallError, match="number of coordinates of a position with axes"):
        check(OfThree, apply_with=by_pair, **given)
    assert check(OfThree, apply_with=by_pair, axes=3, select="rotation", **given).passed


def test_a_call_that_always_fails_is_given_up_soon() -> None:
    """What fails with the same words at the same line is not tried in each size and dtype."""
    calls = []

    def rotate(x: Any, positions: Any) -> Any:
        calls.append(x.dtype)
        raise RuntimeError("no kernel for this machine")

    with pytest.raises(CallError, match="no kernel for this machine"):
        judge_small(rotate, dtypes=None)
    assert len(calls) <= 400
    assert {each.name for each in calls} == {"float64", "float32", "float16"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_same_words_do_not_hide_what_is_taken(dtype: str) -> None:
    """All but one dtype, number of axes and number of sequences fail at one line, without words."""

    def rotate(x: Any, positions: Any) -> Any:
        if (x.dtype.name, x.ndim, len(x)) != (dtype, 3, 1):
            raise ValueError
        return turn_small(x, positions)

    assert failures(judge_small(rotate, dtypes=None, expect=SMALL)) == []


# What would help.


def by_parts(x: Any, cos: Any, sin: Any, position_ids: Any) -> Any:
    """As Gemma 4: as many parts of a head as a position has coordinates, each by its tables."""
    count = position_ids.shape[-1]
    width = 2 * (x.shape[-1] // (2 * count))
    if count * width != x.shape[-1]:
        raise ValueError(f"{x.shape[-1]} coordinates are not {count} parts")
    splits = [width * i for i in range(1, count)]
    parts = (np.split(each, splits, axis=-1) for each in (x, cos, sin))
    turned = []
    for part, c, s in zip(*parts, strict=True):
        half = part.shape[-1] // 2
        swapped = np.concatenate([-part[..., half:], part[..., :half]], axis=-1)
        turned.append(part * c[:, :, None] + swapped * s[:, :, None])
    return np.concatenate(turned, axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [None, 2])
def test_what_takes_tables_and_positions_is_asked_for_what_makes_the_tables(
    axes: int | None,
) -> None:
    with pytest.raises(CallError) as caught:
        judge_small(by_parts, axes=axes, head_dim=16)
    advice = "give the function or class that makes its tables as the target, and this one with"
    assert f"{advice} apply_with" in str(caught.value)
    assert ("coordinates of a position with axes" in str(caught.value)) is (axes is None)
    assert "positions (sequence, 2)" in caught.value.adapter or axes is None
    assert "np.moveaxis(positions, -1, 0)" in caught.value.adapter or axes is None


@pytest.mark.slow
def test_the_error_of_the_nearest_arrangement_is_shown() -> None:
    """Most fail in the first line, and one further on."""

    def rotate(x: Any, positions: Any) -> Any:
        if x.ndim != 3:
            raise ValueError("x must have three axes")
        raise RuntimeError("no table for these positions")

    with pytest.raises(CallError, match="no table for these positions"):
        judge_small(rotate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("expected scalar type Half but found Float", "with dtypes, such as float16"),
        ("only bfloat16 is supported", "with dtypes, such as bfloat16"),
        ("Expected all tensors on cuda:0, got cpu", "with device, such as cuda"),
        ("0 active drivers ([]): Triton needs one", "with device, such as cuda"),
    ],
)
def test_an_error_that_names_a_dtype_or_a_device_is_advice(words: str, advice: str) -> None:
    def rotate(x: Any, positions: Any) -> Any:
        raise RuntimeError(words)

    with pytest.raises(CallError) as caught:
        judge_small(rotate)
    assert advice in str(caught.value)


def test_a_dtype_that_is_taken_is_named() -> None:
    def rotate(x: Any, positions: Any) -> Any:
        if x.dtype != np.float16:
            raise RuntimeError("not supported")
        return turn_small(x, positions)

    with pytest.raises(CallError, match="it takes float16: give that with dtypes"):
        judge_small(rotate)


# How an instance is made.


class OfDim:
    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        self.dim = dim

    def forward(self, x: Any, positions: Any) -> Any:
        assert x.shape[-1] == self.dim
        return turn_small(x, positions)


class HandsOn(OfDim):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class HandsOnMore(HandsOn):
    def __init__(self, *args: Any, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class OfAttention(OfDim):
    def __init__(self, attention_head_dim: int) -> None:
        super().__init__(attention_head_dim)


class TextConfig:
    def __init__(self, hidden_size: int = 4096, num_attention_heads: int = 32) -> None:
        self.head_dim = hidden_size // num_attention_heads


class WholeConfig:
    """A configuration of several models, as Transformers has them."""

    sub_configs: ClassVar[dict[str, type]] = {"text_config": TextConfig}

    def __init__(self, text_config: Any = None) -> None:
        self.head_dim = "that of the text"


class OfText(OfDim):
    def __init__(self, config: WholeConfig) -> None:
        super().__init__(config.head_dim)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [HandsOn, HandsOnMore, OfAttention, OfText])
def test_an_instance_is_made_with_what_its_class_hands_on(target: Any) -> None:
    verdict = judge_small(target, select=["rotation", "offset positions"])
    assert verdict.passed
    assert "head_dim" in verdict.convention.call


@pytest.mark.slow
def test_keys_may_have_tables_of_their_own() -> None:
    """As in cross attention, where they are of another length."""

    def rotate(q: Any, k: Any, cos: Any, sin: Any, cos_k: Any, sin_k: Any) -> Any:
        assert cos.shape[-2] == q.shape[-2]
        return [_by(x, c, s) for x, c, s in ((q, cos, sin), (k, cos_k, sin_k))]

    verdict = judge_small(rotate, select=["rotation", "keys"])
    assert (failures(verdict), verdict.convention.call) == ([], "rotate(q, k, cos, sin, cos, sin)")

    def wrong(q: Any, k: Any, cos: Any, sin: Any, cos_k: Any, sin_k: Any) -> Any:
        return rotate(q, k, cos, sin, cos_k, -sin_k)

    assert failures(judge_small(wrong, select=["rotation", "keys"])) == ["keys"]


def _by(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def test_the_functions_of_a_file_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import os\ndef rotate(x): ...\ndef _helper(x): ...\ndef main(): ...\nclass Settings: ...\n"
        "class Rotary:\n    def forward(self, x): ...\n1 / 0\n"
    )
    with pytest.raises(FileError) as caught:
        judge_small(str(file))
    assert str(caught.value).endswith(f"needs the name of a function: {file}:rotate, {file}:Rotary")
