"""Every result's picture is legible, and clear to colour-blind readers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from golden import assert_golden
from matplotlib.figure import Figure
from pictures import assert_clear, assert_legible, least_difference, outline

import ropecli
from ropecli import Rotary
from ropecli.analyses.expected import ExpectedCurves
from ropecli.encodings import with_table
from ropecli.render import draw
from ropecli.render.figure import COLOURS, Look, with_style
from ropecli.render.frequencies import wavelengths_figure
from ropecli.results import Drawable

PLAIN = Rotary(head_dim=32)
LARGE = Rotary(head_dim=32, base=500_000.0)
DYNAMIC = ropecli.rope("dynamic", head_dim=32, factor=2.0, max_position_embeddings=64)
Q, K, V = np.random.default_rng(0).standard_normal((3, 16, 32))
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
CONFIG = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096}
#: A small picture of each kind of result, and of several together.
RESULTS: dict[str, Callable[[], Figure]] = {
    "BaseBound": lambda: _several(ropecli.base_bound, context_length=4096),
    "BaseScan": lambda: ropecli.base_scan(context_length=2048, grid=100).figure(),
    "Construct": lambda: ropecli.construct(PLAIN, context_length=256).figure(),
    "Decay": lambda: _several(ropecli.decay, max_distance=64),
    "Decay of vectors": lambda: _several(ropecli.decay, max_distance=64, q=Q[0], k=K[0], at=3),
    "Difference": lambda: ropecli.diff(_model(), _model(rope_scaling=YARN)).figure(),
    "Difference, none": lambda: ropecli.diff(_model(), _model()).figure(),
    "Expected": lambda: ropecli.expected_score(ropecli.encoding("t5"), max_distance=64).figure(),
    "Expected, several": lambda: _expected_score("t5").figure(
        *(_expected_score(name) for name in ("alibi", "nope", "rope", "transformer_xl"))
    ),
    "Expected, sinusoidal": lambda: ExpectedCurves(
        curves=(ropecli.expected_score(ropecli.encoding("sinusoidal"), max_distance=64),),
        bound=ropecli.decay(PLAIN, max_distance=64),
        similarity=ropecli.similarity(PLAIN, max_distance=64, positions=32),
    ).figure(),
    "FrequencyTable": lambda: _several(ropecli.frequency_table, context_length=4096),
    "MixedKeys": lambda: ropecli.cache_mix(DYNAMIC, prefill=64, decode=128).figure(),
    "Model": lambda: _model(rope_scaling=YARN).figure(),
    "PositionIds": lambda: ropecli.positions(range(64), lengths=[20, 44]).figure(),
    "Precision": lambda: ropecli.precision(
        PLAIN, ("float32", "bfloat16"), context_length=512
    ).figure(),
    "QuantizedKeys": lambda: ropecli.cache_quantize(PLAIN, format="int4").figure(),
    "Rotation": lambda: ropecli.rotation(Q[0], PLAIN).figure(),
    "Scale": lambda: _several(ropecli.scale, factor=4.0, original_length=1024, methods=["yarn"]),
    "Scores": lambda: ropecli.scores([ropecli.encoding(n) for n in ("rope", "t5")]).figure(),
    "ShiftedKeys": lambda: ropecli.cache_shift(PLAIN, times=100).figure(),
    "Similarity": lambda: ropecli.similarity(PLAIN, max_distance=64, positions=32).figure(),
    "Usage": lambda: ropecli.usage(PLAIN, Q, K).figure(),
}


def _several(analyse: Callable[..., Any], **parameters: object) -> Figure:
    small, large = (analyse(rope, **parameters) for rope in (PLAIN, LARGE))
    picture: Figure = small.figure(large)
    return picture


def _model(**settings: object) -> ropecli.Model:
    return ropecli.load_model(CONFIG | settings)


@pytest.mark.slow
def test_every_result_with_a_picture_is_here() -> None:
    public = {getattr(ropecli, name) for name in ropecli.__all__}
    drawable = {
        each.__name__ for each in public if isinstance(each, type) and issubclass(each, Drawable)
    }
    assert drawable <= set(RESULTS)


#: Those in a column of a paper as well: of several panels, and of long names.
NARROW = ("BaseBound", "Decay of vectors", "Difference", "Expected, several", "Precision", "Usage")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width"), [*((name, None) for name in RESULTS), *((name, 3.4) for name in NARROW)]
)
def test_picture_is_legible_and_clear(name: str, width: float | None) -> None:
    with Look(width=width).apply():
        picture = RESULTS[name]()
    assert_legible(picture)
    assert_clear(picture)


def _expected_score(name: str) -> ropecli.Expected:
    encoding = with_table(name, 21, model_dim=16, head_dim=4)
    return ropecli.expected_score(encoding, max_distance=20)


def _scores() -> ropecli.Scores:
    encodings = [ropecli.encoding(name, model_dim=8, heads=2) for name in ("alibi", "rope", "fire")]
    return ropecli.scores(encodings, queries=3, keys=4, causal=True)


SCALED = ropecli.rope("linear", head_dim=32, factor=8.0)
STILL = ropecli.rope("proportional", head_dim=32, partial_rotary_factor=0.25)  # most pairs
AXES = ropecli.rope("default", head_dim=16, mrope_section=[3, 2, 3])
BOUND = ropecli.decay(Rotary(head_dim=4), max_distance=20)
X = np.arange(1.0, 9.0)
#: Pictures by the name of their golden file.
OUTLINES: dict[str, Callable[[], Figure]] = {
    "base-bound": lambda: ropecli.base_bound(PLAIN, context_length=600).figure(),
    "base-bounds": lambda: _several(ropecli.base_bound, context_length=600),
    "base-scan": lambda: ropecli.base_scan(context_length=60, head_dim=16, grid=30).figure(),
    "construct": lambda: ropecli.construct(PLAIN, context_length=64).figure(),
    "constructs": lambda: _several(ropecli.construct, context_length=64),
    "contributions": lambda: ropecli.decay(Rotary(4), max_distance=9, contributions=True).figure(),
    "decay": lambda: ropecli.decay(PLAIN, max_distance=64).figure(),
    "decay-figure2": lambda: ropecli.decay(Rotary(128), max_distance=256, step=0.25).figure(
        figure2=True
    ),
    "decays": lambda: _several(ropecli.decay, max_distance=64),
    "decay-vectors": lambda: _several(ropecli.decay, max_distance=64, q=Q[0], k=K[0], at=3),
    "difference": lambda: ropecli.diff(_model(), _model(rope_scaling=YARN)).figure(),
    "expected": lambda: _expected_score("alibi").figure(),
    "expected-bound": lambda: _expected_score("alibi").figure(bound=BOUND),
    "expected-several": lambda: _expected_score("alibi").figure(
        _expected_score("rope"), bound=BOUND
    ),
    "precision": lambda: ropecli.precision(Rotary(8), context_length=70_000).figure(),
    "precision-none": lambda: ropecli.precision(PLAIN, "float64", context_length=9).figure(),
    "precisions": lambda: ropecli.precision(PLAIN, context_length=500).figure(
        ropecli.precision(LARGE, ["float32", "bf16-positions"], context_length=500)
    ),
    "rotation": lambda: ropecli.rotation(X, Rotary(8), positions=(0, 1)).figure(),
    "rotation-pairs": lambda: ropecli.rotation(
        X, Rotary(8), positions=(0, 1, 5), pairs=(0, 3)
    ).figure(),
    "similarity": lambda: ropecli.similarity(PLAIN, max_distance=64, positions=32).figure(),
    "similarity-scaled": lambda: ropecli.similarity(SCALED, max_distance=64).figure(),
    "usage": lambda: ropecli.usage(PLAIN, Q.reshape(2, 4, 2, 32), K.reshape(2, 2, 4, 32)).figure(),
    "wavelengths": lambda: with_style(wavelengths_figure)(
        [("default", PLAIN), ("proportional", STILL)], [("original", 2048), ("context", 16_384)]
    ),
    "wavelengths-axes": lambda: with_style(wavelengths_figure)(
        [("M-RoPE", AXES), ("default", PLAIN)]
    ),
    "scales": lambda: _several(ropecli.scale, factor=4.0, original_length=64),
    "scores": lambda: _scores().figure(),
    "scores-attention": lambda: draw(_scores(), attention=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTLINES)
def test_pictures_are_as_they_were_looked_at(name: str) -> None:
    assert_golden(f"figures/{name}", [(name, outline(OUTLINES[name]()))])


def test_colours_are_told_apart_by_everybody() -> None:
    for one, other in combinations(COLOURS, 2):
        assert least_difference(one, other) > 10, (one, other)
    assert least_difference("#FF0000", "#FF0000") == 0
    assert least_difference("#7F7F00", "#A05A00") < 10  # an olive and a brown


@pytest.mark.parametrize(
    ("x", "y", "message"), [(0.5, 0.5, "lies on"), (1.0, 0.2, "cut off"), (0.2, 1.0, "cut off")]
)
def test_what_is_not_legible_is_noticed(x: float, y: float, message: str) -> None:
    picture = Figure()
    picture.text(0.5, 0.52, "a text")
    picture.text(0.2, 0.2, "another")
    assert_legible(picture)
    picture.text(x, y, "one too many")
    with pytest.raises(AssertionError, match=message):
        assert_legible(picture)


def test_curves_that_look_alike_are_noticed() -> None:
    picture = Figure()
    axes = picture.subplots()
    axes.plot([0, 1], color="#008000", label="green")
    axes.plot([1, 0], color="#2F7F00", label="another green")
    with pytest.raises(AssertionError, match="green looks like another green"):
        assert_clear(picture)
    axes.get_lines()[1].set_linestyle("--")
    assert_clear(picture)
