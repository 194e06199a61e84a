"""What a config.json of diffusers is read as, and how its own classes rotate queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle.diffusers_models import MODELS, points, queries

import ropecli
from ropecli.models.diffusers import table

pytestmark = pytest.mark.oracle

#: Keys of released files that are not the defaults of their classes.
RELEASED: dict[str, list[dict[str, Any]]] = {
    "CogVideoXTransformer3DModel": [{"use_rotary_positional_embeddings": True}],
    "HiDreamImageTransformer2DModel": [{"axes_dims_rope": [64, 32, 32]}],
}
#: Other values of the keys, so that each is seen to be read.
OTHER: dict[str, list[dict[str, Any]]] = {
    "axes_dims_rope": [{"axes_dims_rope": [8, 40, 16], "attention_head_dim": 64}],
    "rope_axes_dim": [{"rope_axes_dim": [8, 40, 16], "attention_head_dim": 64}],
    "rope_dim": [{"rope_dim": [24, 24, 16], "attention_head_dim": 64}],
    "rope_dim_list": [{"rope_dim_list": [32, 40, 56]}],
    "axes_dims": [{"axes_dims": [16, 48, 64]}],
    "axes_dim_rope": [{"axes_dim_rope": [16, 48, 32]}],
    "axes_dim": [{"axes_dim": [24, 40]}],
    "thirds": [{"attention_head_dim": 64}, {"attention_head_dim": 96}],
    "quarter": [{"attention_head_dim": 96, "use_rotary_positional_embeddings": True}],
}
FOUR = {"axes_dims_rope": [8, 24, 16, 16], "attention_head_dim": 64}
TWO = {"rope_axes_dim": [24, 40], "attention_head_dim": 64}


def cases() -> list[Any]:
    """Every class with the keys of a released file, other axes and another base."""
    found = []
    for name, facts in table()["classes"].items():
        usual = RELEASED.get(name, [{}])
        others = OTHER[facts["axes"]]
        others = {"Flux2": [FOUR], "Flux3": [FOUR], "HunyuanImage": [TWO]}.get(
            name.removesuffix("Transformer2DModel"), others
        )
        based = [{facts["base"]: 500.0}] if "base" in facts else []
        found += [(name, keys) for keys in (*usual, *others, *based)]
    return [pytest.param(*case, id=f"{case[0]} {[*case[1].values()]}") for case in found]


def run_of_patches(found: NDArray[np.float32], count: int) -> NDArray[np.float32] | None:
    """Return the queries of patches that are alike, by the lengths of their pairs; None if none."""
    lengths = np.hypot(found[:, ::2], found[:, 1::2])
    for start in range(len(found) - count + 1):
        own = lengths[start : start + count]
        if np.allclose(own, own[:1], rtol=1e-3, atol=1e-4 * own.max()):
            return found[start : start + count]
    return None


@pytest.mark.filterwarnings("ignore:`FluxPosEmbed` is deprecated")  # which Chroma imports
@pytest.mark.parametrize(("name", "keys"), cases())
def test_queries_of_equal_patches_differ_by_the_rotation_that_is_read(
    name: str, keys: dict[str, Any]
) -> None:
    small = MODELS[name]
    model = ropecli.load_model({"_class_name": name, **small.sizes, **keys})
    rope = model.layer().rotary
    assert rope is not None
    grid = points(*small.grid)
    found = (run_of_patches(each, len(grid)) for each in queries(name, keys))
    seen = next(each for each in found if each is not None)
    assert (np.ptp(seen, axis=0) > 0.1).any()
    first = np.broadcast_to(seen[:1].astype(np.float64), seen.shape)
    expected = ropecli.rotate(first, rope, positions=grid)
    np.testing.assert_allclose(seen, expected, rtol=0, atol=2e-5 * np.abs(seen).max())


def test_each_class_that_is_read_is_run() -> None:
    assert MODELS.keys() == table()["classes"].keys()
