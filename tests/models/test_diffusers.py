"""The config.json of a transformer of diffusers, read by its _class_name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli.errors import ArgumentError, FileError, NoRotaryError
from ropecli.models.load import describe, load_model
from ropecli.models.overrides import Overrides, override
from ropecli.rotary import Rotary


def rotary(name: str, **keys: Any) -> Rotary:
    """Return the rotation of a class with these keys."""
    found = load_model({"_class_name": name, **keys}).layer().rotary
    assert found is not None
    return found


def axis(rope: Rotary, number: int) -> list[float]:
    """Return the frequencies of one axis."""
    row = rope.inv_freq[number]
    return [float(each) for each in row[row != 0]]


def test_wan_divides_its_pairs_in_thirds_with_the_rest_for_time() -> None:
    rope = rotary("WanTransformer3DModel", attention_head_dim=128)
    assert [len(axis(rope, number)) for number in range(3)] == [22, 21, 21]
    assert axis(rope, 0)[1:3] == pytest.approx([0.6579, 0.4329], abs=5e-5)
    for number in (1, 2):
        assert axis(rope, number)[1:3] == pytest.approx([0.6449, 0.4160], abs=5e-5)


def test_hunyuan_video_has_a_table_of_each_axis_own_size() -> None:
    rope = rotary("HunyuanVideoTransformer3DModel", rope_axes_dim=[16, 56, 56], rope_theta=256.0)
    assert rope.wavelength[3] == pytest.approx(2 * math.pi * 256 ** (3 / 8))
    assert rope.axis == (0,) * 8 + (1,) * 28 + (2,) * 28
    assert rope.layout == "interleaved"


def test_cogvideox_gives_time_a_quarter() -> None:
    rope = rotary("CogVideoXTransformer3DModel", use_rotary_positional_embeddings=True)
    assert [len(axis(rope, number)) for number in range(3)] == [8, 12, 12]
    assert rope.wavelength[1] == pytest.approx(19.87, abs=0.005)


def test_a_class_without_its_switch_has_no_rotation() -> None:
    file = {"_class_name": "CogVideoXTransformer3DModel"}
    with pytest.raises(NoRotaryError, match="use_rotary_positional_embeddings is false"):
        load_model(file)
    assert [finding.rule for finding in ropecli.lint(file)] == ["R002"]


def test_z_image_is_no_params_json() -> None:
    keys = {"dim": 3840, "n_heads": 30, "n_layers": 30, "axes_dims": [32, 48, 48]}
    rope = rotary("ZImageTransformer2DModel", **keys)
    assert (rope.head_dim, rope.base) == (128, 256.0)


@pytest.mark.parametrize(
    ("keys", "got"),
    [
        ({"axes_dims_rope": [16, 56, 48]}, r"\[16, 56, 48\] = 120"),
        ({"axes_dims_rope": [15, 57, 56]}, r"\[15, 57, 56\] = 128"),
        ({"axes_dims_rope": [16, 56.0, 56]}, r"\[16, 56.0, 56\]"),
        ({"axes_dims_rope": 128}, "128"),
        ({"axes_dims_rope": None}, "None"),
        ({"axes_dims_rope": []}, r"\[\] = 0"),
    ],
)
def test_axes_that_do_not_fill_the_head_are_refused(keys: dict[str, Any], got: str) -> None:
    expected = f"axes_dims_rope must be even numbers that add up to the head dim 128, got {got}$"
    with pytest.raises(FileError, match=expected):
        rotary("FluxTransformer2DModel", **keys)
    (finding,) = ropecli.lint({"_class_name": "FluxTransformer2DModel", **keys})
    assert (finding.rule, finding.key) == ("R001", "axes_dims_rope")


def test_null_axes_count_where_they_are_the_default_of_the_class() -> None:
    rope = rotary("PRXTransformer2DModel", axes_dim=None)
    assert rope.axis == (0,) * 16 + (1,) * 16


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("WanTransformr3DModel", "got 'WanTransformr3DModel'; did you mean WanTransformer3DModel"),
        ("AutoencoderKL", "transformer of diffusers with a known rotary embedding, got 'Autoenc"),
        ("ErnieImageTransformer2DModel", "rotates by tables laid out for the other layout"),
        (3, "got 3"),
    ],
)
def test_other_classes_are_refused_by_name(name: object, why: str) -> None:
    with pytest.raises(FileError, match=why):
        load_model({"_class_name": name})


def test_only_diffusers_reads_its_files() -> None:
    file = {"_class_name": "WanTransformer3DModel"}
    assert load_model(file, reading="diffusers").stack == "diffusers 0.42.1"
    for stack in ("transformers", "vllm", "llama.cpp", "mlx-lm", "paper"):
        with pytest.raises(ArgumentError, match=f"is read as diffusers, got {stack}"):
            load_model(file, reading=stack)
    with pytest.raises(ArgumentError, match="reading must be one of"):
        load_model({"model_type": "llama"}, reading="diffusers")


def test_how_a_pipeline_counts_positions_is_noted_and_assumes_nothing() -> None:
    file = {"_class_name": "CogVideoXTransformer3DModel", "use_rotary_positional_embeddings": True}
    page = str(load_model(file))
    assert "positions         rows and columns count patches" in page
    assert ropecli.lint(file) == ()


def test_another_base_is_written_by_no_key() -> None:
    with pytest.raises(ArgumentError, match=r"only a config\.json of Transformers or a GGUF"):
        override(describe({"_class_name": "WanTransformer3DModel"}), Overrides(base=500.0))


def test_grids_of_wan_are_counted_without_merging() -> None:
    found = ropecli.positions(grids=[(2, 3, 5)], mrope="wan")
    assert np.array_equal(found.ids, np.indices((2, 3, 5)).reshape(3, -1))


def test_a_difference_of_axes_is_shown_by_their_pairs() -> None:
    wan = load_model({"_class_name": "WanTransformer3DModel"})
    page = str(ropecli.diff(wan, load_model({"_class_name": "HunyuanVideoTransformer3DModel"})))
    rows = {line.split()[0]: line.split("  ")[1:] for line in page.splitlines() if line.strip()}
    assert "22 + 21 + 21 pairs" in " ".join(rows["axis"])
    assert "8 + 28 + 28" in " ".join(rows["sections"])
    assert "pairs" not in " ".join(rows["sections"])


@pytest.mark.parametrize(
    ("name", "keys", "error"),
    [
        (
            "Wan",
            {"attention_head_dim": 65},
            r"the axes must be even .* 65, got \[25, 20, 20\] = 65",
        ),
        ("Wan", {"attention_head_dim": "128"}, "attention_head_dim must be an integer from 1"),
        ("Wan", {"attention_head_dim": 2**40}, r"the axes|head dim must be at most 65,536"),
        ("HunyuanVideo", {"rope_theta": 0}, "base must be finite and above 0, got 0"),
        ("HunyuanVideo", {"rope_theta": "256"}, "rope_theta must be a number, got '256'"),
        ("HunyuanVideo", {"rope_axes_dim": [2] * 64}, "axes must be from 1 to 4"),
    ],
)
def test_unusable_values_are_one_line(name: str, keys: dict[str, Any], error: str) -> None:
    with pytest.raises(FileError, match=error) as raised:
        rotary(f"{name}Transformer3DModel", **keys)
    assert "\n" not in str(raised.value)
