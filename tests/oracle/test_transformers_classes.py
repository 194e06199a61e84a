"""Every rotary configuration class of the installed Transformers, against its own modelling code.

The rotation of the attention's queries is measured (see transformers_measure), and compared with
`load_model` of the configuration as a config.json: with all of its keys, and as the library saves
it, without the defaults of its class.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_within
from oracle.transformers_classes import OFF, TWEAKS, WITHOUT, cases
from oracle.transformers_measure import Kind, measure

from ropecli import Rotary
from ropecli.errors import FileError
from ropecli.models.load import load_model

pytestmark = pytest.mark.oracle

#: The library computes tables in float32: a power, whose rounding ln(base) magnifies, and a
#: division; base 1.6e5 and all: (12 + 3) 2^-24 = 9e-7. The angles that are measured come from
#: float32 cosines and sines, 2 * 2^-24 more.
FREQUENCIES = 2e-6
#: attention_scaling is a float64; cosine and sine of one pair round by 2^-24 each.
FACTORS = 1e-6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        # Listing them takes the library seconds: not for a run that leaves these tests out.
        wanted = "not oracle" not in metafunc.config.getoption("markexpr")
        metafunc.parametrize("name", rotary_classes()[::2] if wanted else ["of the library"])


def rotary_classes() -> list[str]:
    """The names of the classes; `tests/soak/test_transformers_soak.py` has those left out here."""
    return [name for name in cases() if name not in WITHOUT]


def test_none_is_missing() -> None:
    assert set(WITHOUT) <= set(cases())
    assert len(cases()) - len(WITHOUT) >= 240


def test_class(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    config = case.config()
    kinds = measure(case)
    for form in (config.to_dict(), config.to_diff_dict()):
        file = tmp_path / "config.json"
        file.write_text(json.dumps(form | {"model_type": config.model_type}, default=str))
        for kind in kinds:
            assert_same(rotary_of(file, kind, config.model_type), kind)


FLAT = {"rope_type": "default", "rope_theta": 123.0}
PROPORTIONAL = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}


@pytest.mark.parametrize(
    ("corner", "keys"),
    [
        ("Dots3NoteTextConfig", {"rope_parameters": FLAT}),
        ("DeepseekV4Config", {"partial_rotary_factor": 0.5}),
        ("Qwen3_5TextConfig", {"rope_parameters": PROPORTIONAL}),
        # Its indexer takes the cosines of whole heads.
        ("Qwen4ExpTextConfig", {"rope_parameters": PROPORTIONAL, "indexer_head_dim": 256}),
    ],
)
def test_corner(
    corner: str, keys: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TWEAKS, corner, TWEAKS.get(corner, {}) | keys)
    config = cases()[corner].config()
    given = {key: value for key, value in config.to_dict().items() if key != "rope_parameters"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(given | keys, default=str))
    for kind in measure(cases()[corner]):
        assert_same(rotary_of(file, kind, config.model_type), kind)


@pytest.mark.parametrize("off", OFF)
def test_defaults_without_rotation(off: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(cases()[off].config_class().to_dict(), default=str))
    with pytest.raises(FileError, match="no rotary position embedding found"):
        load_model(file)


def rotary_of(file: Path, kind: Kind, model_type: str) -> Rotary | None:
    """Return the rotation that load_model has for the layers."""
    layers = load_model(file).layers
    for layer in layers:
        if layer.settings.layers is not None and kind.layers[0] in layer.settings.layers:
            return layer.rotary
    # The model's own rotation goes by its name where a part has one too.
    names = (kind.layer_type, "all", model_type)
    layer = next(layer for name in names for layer in layers if layer.name == name)
    return layer.rotary


def assert_same(rope: Rotary | None, kind: Kind) -> None:
    if not kind.pairs:
        assert rope is None
        return
    assert rope is not None
    assert rope.head_dim == kind.head_dim
    turning = turning_pairs(rope)
    assert set(turning) == set(kind.pairs)
    for read, (inv_freq, written, axis) in turning.items():
        pair = kind.pairs[read]
        assert written == pair.written, read
        assert axis == pair.axis or kind.axes == 1, read
        error = math.remainder(inv_freq - pair.angle, 2 * math.pi)
        assert abs(error) <= FREQUENCIES * abs(inv_freq), (read, inv_freq, pair.angle)
    factors = [pair.factor for pair in kind.pairs.values()]
    assert_within(
        "spread of factors", got=max(factors) / min(factors), expected=1, tolerance=FACTORS
    )
    assert_within("factor", got=rope.attention_factor, expected=kind.scaling, tolerance=FACTORS)
    formula = rope.formula
    by_patch = formula is not None and formula.get("patches") is not None
    for table in [] if by_patch else kind.tables.values():  # DINOv3's is per half of an image
        # A vision module holds the table of one axis; ERNIE 4.5 VL holds its own in an order of
        # its own.
        if len(table) == rope.rotary_dim // 2:
            got, expected = sorted(rope.diagonal_inv_freq), sorted(table)
        else:
            got, expected = sorted(set(rope.diagonal_inv_freq)), sorted(table)
        allowed = [FREQUENCIES * inv_freq for inv_freq in got]
        assert_within("inv_freq", got=got, expected=expected, tolerance=allowed)


def turning_pairs(rope: Rotary) -> dict[tuple[int, int], tuple[float, tuple[int, int], int]]:
    """Frequency, output coordinates and axis of each pair that turns, by its input coordinates."""
    sign = -1 if rope.direction == "reversed" else 1
    found: dict[tuple[int, int], Any] = {}
    assert rope.axis is not None
    rows = zip(
        rope.diagonal_inv_freq,
        rope.pairs_in.tolist(),
        rope.pairs_out.tolist(),
        rope.axis,
        strict=True,
    )
    for inv_freq, (a, b), (c, d), axis in rows:
        if inv_freq and a < b:
            found[a, b] = (sign * inv_freq, (c, d), axis)
        elif inv_freq:
            found[b, a] = (-sign * inv_freq, (d, c), axis)
    return found
