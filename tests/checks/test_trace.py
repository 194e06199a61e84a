"""The verdict on a watched model: vectors as `watch` records them, right and wrong."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, slow, slow_rows
from implementations.plain import half

import ropecli
from ropecli import Rotary, rotate
from ropecli.arrays import DTYPES
from ropecli.checks.trace.tensors import ModelCall, Vectors
from ropecli.checks.trace.verdict import Recording

HALF = Rotary(head_dim=16, layout="half")
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "head_dim": 16,
    "num_hidden_layers": 2,
    "rope_theta": 1e4,
    "max_position_embeddings": 2048,
}
YARN: dict[str, Any] = {"factor": 4.0, "original_max_position_embeddings": 16}
LENGTHS = (24, 9, *[1] * 6)  #: Positions of each call: two of several, then one by one.


def seen_of(
    rope: Rotary | None,
    *,
    layers: int = 2,
    wrong: dict[int, Rotary | None] | None = None,
    late: int = 0,
    scale: float = 0.25,
) -> Recording:
    """Return the record of a model whose layers have one RoPE, but for those that are wrong.

    Args:
        rope: That of most layers; None rotates nothing.
        layers: Their number.
        wrong: Other RoPEs by layer.
        late: Added to the positions of calls of one.
        scale: Of the scores.
    """
    seen, random, first = Recording(), np.random.default_rng(0), 0
    for index, length in enumerate(LENGTHS):
        positions = np.arange(first, first + length, dtype=np.float64)
        seen.calls.append(ModelCall(positions=positions[None, :, None], kept=np.arange(length)))
        for layer in range(layers):
            own = (wrong or {}).get(layer, rope)
            for role in ("query", "key"):
                x = random.standard_normal((2, length, 16)).astype(np.float32)
                y = own and rotate(x, own, positions + late * (length == 1))
                vectors: dict[str, Any] = {"before": None if own is None else x, "after": y}
                place: dict[str, Any] = {"module": f"layers.{layer}.attn", "call": index}
                score: dict[str, Any] = {"factor": np.ones((2, length)), "scale": scale}
                seen.vectors.append(Vectors(**place, role=role, **vectors, head_dim=16, **score))
        first += length
    return seen


def test_every_layer_agrees() -> None:
    found = seen_of(HALF).verdict(HALF)
    assert found.passed
    assert [(each.index, each.agrees, each.note) for each in found.layers] == [
        (0, True, None),
        (1, True, None),
    ]
    assert all(each.query and each.query.base == 10_000 for each in found.layers)
    assert (found.layers[0].softmax_scale, found.layers[0].expected_scale) == (0.25, 0.25)
    assert found.calls == (
        "24 positions, 0 to 23",
        "9 positions, 24 to 32",
        "6 positions one by one, 33 to 38",
    )


@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        (Rotary(head_dim=16, layout="half", base=500.0), "base 500, expected 10000"),
        (Rotary(head_dim=16), "layout interleaved, expected half"),
        (
            Rotary(head_dim=16, layout="half", attention_factor=1.25),
            "attention factor 1.25, expected 1",
        ),
        (Rotary(head_dim=16, layout="half", rotary_dim=8), "rotary dim 8, expected 16"),
        (Rotary(head_dim=16, layout="half", direction="reversed"), "direction reversed"),
        (
            ropecli.rope("linear", head_dim=16, layout="half", factor=4.0),
            "frequencies of linear, base 10000, factor 4, expected default, base 10000",
        ),
        (None, "not rotated"),
        (HALF.with_inv_freq(HALF.inv_freq * 1e4 ** (-1 / 16)), "exponents half a pair late"),
    ],
)
def test_one_layer_that_parts_is_named(wrong: Rotary | None, note: str) -> None:
    found = seen_of(HALF, wrong={1: wrong}).verdict(HALF)
    assert not found.passed
    assert [each.agrees for each in found.layers] == [True, False]
    assert (found.layers[1].note or "").startswith(f"query and key: {note}")


def rounded_to(dtype: str, values: Any) -> Any:
    return values.astype(np.float32).astype(DTYPES[dtype]).astype(np.float64)


def seen_of_rounded(
    where: range, *layers: tuple[str, str] | None, data: str = "float32"
) -> Recording:
    """Return the record of a model whose layers round something to half precision, or nothing.

    Args:
        where: Positions of its one call.
        layers: Such as ("bfloat16", "positions"), or None where nothing is rounded.
        data: Dtype of its queries and keys.
    """
    seen, random, m = Recording(), np.random.default_rng(0), np.array(where, dtype=np.float64)
    seen.calls.append(ModelCall(positions=m[None, :, None], kept=np.arange(len(m))))
    for index, rounded in enumerate(layers):
        dtype, part = rounded or ("float64", None)
        at = rounded_to(dtype, m) if part == "positions" else m
        angles = at[:, None] * HALF.inv_freq
        angles = rounded_to(dtype, angles) if part == "angles" else angles
        tables = [np.cos(angles), np.sin(angles)]
        tables = [rounded_to(dtype, each) for each in tables] if part == "tables" else tables
        for role in ("query", "key"):
            x = random.standard_normal((2, len(m), 16)).astype(np.float32).astype(DTYPES[data])
            y = half(x.astype(np.float64), *tables).astype(np.float32).astype(DTYPES[data])
            place: dict[str, Any] = {"module": f"layers.{index}.attn", "call": 0, "role": role}
            seen.vectors.append(Vectors(**place, before=x, after=y, head_dim=16))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("what", ["positions", "angles", "tables"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_on_the_way_is_named(dtype: str, what: str) -> None:
    where = range(2000, 2400) if (dtype, what) == ("float16", "positions") else range(400)
    for first in (None, (dtype, what)):  # neither layer is taken for the other
        last = (dtype, what) if first is None else None
        found = seen_of_rounded(where, first, last).verdict(HALF)
        notes = [each and f"query and key: computed with {dtype} {what}" for each in (first, last)]
        assert [each.note for each in found.layers] == notes
        assert not found.passed


@pytest.mark.parametrize("where", [range(400), range(1000, 1200)])
@pytest.mark.parametrize("data", ["float32", "bfloat16", "float16"])
def test_rounded_positions_are_named_whatever_the_data(data: str, where: range) -> None:
    found = seen_of_rounded(where, None, ("bfloat16", "positions"), data=data).verdict(HALF)
    note = "query and key: computed with bfloat16 positions"
    assert [each.note for each in found.layers] == [None, note]


@pytest.mark.parametrize("data", ["bfloat16", "float16"])
def test_tables_in_the_dtype_of_the_data_are_right(data: str) -> None:
    assert seen_of_rounded(range(400), None, (data, "tables"), data=data).verdict(HALF).passed


@pytest.mark.slow
def test_an_error_that_no_rounding_explains_is_named() -> None:
    seen = seen_of_rounded(range(400), None)
    for each in seen.vectors:
        assert each.before is not None
        angles = np.arange(400.0)[:, None] * HALF.inv_freq
        angles -= np.round(angles / 6.2832) * 6.2832  # a period of five digits
        each.after = half(each.before, np.cos(angles), np.sin(angles)).astype(np.float32)
    note = seen.verdict(HALF).layers[0].note or ""
    assert re.fullmatch(r"query and key: off by up to [\d,.e+]+ ulp of float32, by no .*", note)


@pytest.mark.slow
def test_positions_that_are_off_in_single_steps() -> None:
    found = seen_of(HALF, late=1).verdict(HALF)
    note = "query and key: positions are off by +1 one position at a time"
    assert [each.note for each in found.layers] == [note, note]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moved", "note"),
    [
        (lambda m: m - m[0], "positions restart at 0 with a cache"),
        *slow_rows((lambda m: m * (len(m) > 1), "positions are always 0 one position at a time")),
        (
            lambda m: 2 * m,
            "positions or frequencies are multiplied by 2, or rows are rotated twice",
        ),
        (lambda m: 3 * m, "positions or frequencies are multiplied by 3"),
    ],
)
@pytest.mark.parametrize(
    "rope", [HALF, *slow(ropecli.rope("yarn", head_dim=16, layout="half", **YARN))]
)
def test_wrong_positions_are_named(moved: Any, note: str, rope: Rotary) -> None:
    seen = seen_of(rope, layers=1)
    for each in seen.vectors:
        assert each.before is not None
        each.after = rotate(each.before, rope, moved(seen.calls[each.call].positions[0, :, 0]))
    found = seen.verdict(rope)
    assert str(found.layers[0].note).startswith(f"query and key: {note}")


def seen_of_batch(positions: Any, rotated_by: Any, rope: Any = HALF) -> Recording:
    """Return the record of one layer of four heads in one call, (sequences, count) positions."""
    seen, random = Recording(), np.random.default_rng(0)
    where = np.asarray(positions, dtype=np.float64)
    seen.calls.append(ModelCall(positions=where[..., None], kept=np.arange(where.shape[1])))
    for role in ("query", "key"):
        x = random.standard_normal((4, where.size, 16)).astype(np.float32)
        y = rotate(x, rope, np.ravel(rotated_by).astype(np.float64))
        vectors: dict[str, Any] = {"before": x, "after": y}
        seen.vectors.append(Vectors(module="attn", call=0, role=role, head_dim=16, **vectors))
    return seen


PADDED = np.array([np.arange(24), np.maximum(np.arange(24) - 5, 0), np.arange(24) + 7])


@pytest.mark.parametrize(
    ("rotated_by", "note"),
    [
        (PADDED, None),
        (PADDED[[0, 0, 2]], "sequence 1 of 3: rotated by the positions of sequence 0"),
        (PADDED[[0, 0, 0]], "sequences 1, 2 of 3: rotated by the positions of sequence 0"),
        (PADDED + 3 * np.eye(3)[:, 2:], "sequence 2 of 3: positions are off by +3"),
        (PADDED + 1, "positions are off by +1"),
    ],
)
def test_every_sequence_of_a_batch_is_judged(rotated_by: Any, note: str | None) -> None:
    found = seen_of_batch(PADDED, rotated_by).verdict(HALF)
    assert found.layers[0].note == (note and f"query and key: {note}")
    assert found.passed is (note is None)
    assert found.calls == ("24 positions of 3 sequences, 0 to 23",)


def test_every_head_is_judged() -> None:
    seen = seen_of_batch(PADDED[:1], PADDED[:1])
    query = seen.vectors[0]
    assert query.before is not None
    assert query.after is not None
    query.after[3] = rotate(query.before[3], Rotary(head_dim=16), PADDED[0].astype(float))
    assert seen.verdict(HALF).layers[0].note == (
        "query: head 3 of 4: layout interleaved, expected half"
    )


DYNAMIC = ropecli.rope(
    "dynamic", head_dim=16, layout="half", factor=4.0, max_position_embeddings=16
)


@pytest.mark.parametrize(
    ("at", "note"),
    [
        (lambda length: length, None),
        (lambda _: 16, "base 10000 without dynamic NTK scaling"),
    ],
)
def test_steps_of_dynamic_ntk_have_a_table_each(at: Any, note: str | None) -> None:
    seen = seen_of(DYNAMIC, layers=1)
    for each in seen.vectors:
        call = seen.calls[each.call]
        assert each.before is not None
        each.after = rotate(
            each.before, DYNAMIC.at_length(at(call.length)), call.positions[0, :, 0]
        )
    assert [call.length for call in seen.calls[-2:]] == [38, 39]
    found = seen.verdict(DYNAMIC)
    assert (found.layers[0].note is None) is (note is None)
    if note is not None:
        assert note in str(found.layers[0].note)


def test_one_position_alone_shows_whether_it_is_right() -> None:
    assert seen_of_batch([[7]], [[7]]).verdict(HALF).passed
    note = seen_of_batch([[7]], [[8]]).verdict(HALF).layers[0].note
    assert note == "query and key: not rotated as expected at position 7"
    at_zero = seen_of_batch([[0]], [[0]]).verdict(HALF).layers[0]
    assert (at_zero.agrees, at_zero.note) == (
        None,
        "called only at position 0, where nothing is rotated",
    )


def test_what_was_not_looked_at_is_in_the_first_line() -> None:
    seen = seen_of(HALF)
    seen.calls += [ModelCall(positions=np.zeros((1, 1, 1)), kept=np.arange(1))] * 300
    long = ModelCall(positions=np.arange(100.0)[None, :, None], kept=np.arange(24))
    seen.calls[0] = long
    assert str(seen.verdict(HALF)).splitlines()[0] == (
        "PASS  the RoPE expected in 2 of 2 layers; not looked at: 52 of 308 calls and 76 of 363 "
        "positions of each head"
    )


def seen_of_grid(rope: Rotary, *, text: bool = False) -> Recording:
    """Return the record of a model with M-RoPE at positions in text, or of a grid."""
    grid = np.random.default_rng(0).permuted(np.tile(np.arange(40.0), (3, 1)), axis=1).T
    seen, where = Recording(), np.tile(np.arange(40.0), (3, 1)).T if text else grid
    seen.calls.append(
        ModelCall(positions=(where[:, :1] if text else where)[None], kept=np.arange(40))
    )
    for role in ("query", "key"):
        x = np.random.default_rng(1).standard_normal((2, 40, 16)).astype(np.float32)
        y = rotate(x, rope, where)
        place: dict[str, Any] = {"module": "layers.0.attn", "call": 0, "role": role}
        seen.vectors.append(Vectors(**place, before=x, after=y, head_dim=16))
    return seen


def mrope(*section: int, interleaved: bool = False) -> Rotary:
    more: dict[str, Any] = {"mrope_interleaved": True} if interleaved else {}
    return ropecli.rope("default", head_dim=16, layout="half", mrope_section=section, **more)


def test_wrong_sections_are_named() -> None:
    right = mrope(2, 3, 3)
    found = seen_of_grid(right).verdict(right)
    assert found.passed
    assert found.calls == ("40 positions, 11 to 31",), "of the first axis"
    found = seen_of_grid(mrope(4, 2, 2)).verdict(right)
    assert found.layers[0].note == (
        "query and key: axes of the pairs 4/2/2, expected 2/3/3: "
        "pair 2 follows axis 0 of the position, expected 1"
    )
    found = seen_of_grid(mrope(3, 3, 2, interleaved=True)).verdict(right)
    assert found.layers[0].note == (
        "query and key: axes of the pairs 3/3/2 in turns, expected 2/3/3: "
        "pair 1 follows axis 1 of the position, expected 0"
    )


def test_positions_in_text_do_not_show_the_axes() -> None:
    found = seen_of_grid(mrope(4, 2, 2), text=True).verdict(mrope(2, 3, 3))
    assert found.layers[0].agrees is None
    assert "the same on all axes: call it with position_ids" in (found.layers[0].note or "")


def test_a_rotation_that_is_not_expected() -> None:
    model = ropecli.load_model(
        {
            "model_type": "smollm3",
            "head_dim": 16,
            "num_hidden_layers": 2,
            "no_rope_layers": [1, 0],
            "rope_theta": 1e4,
        }
    )
    found = seen_of(HALF).verdict(model)
    assert [each.name for each in found.layers] == ["rope", "nope"]
    assert found.layers[1].note == "query and key: rotated, where no position is expected"
    assert seen_of(HALF, wrong={1: None}).verdict(model).passed


def test_what_was_assumed_of_an_unknown_class_is_compared_with_nothing() -> None:
    """Its base is read; its layout, and which layers rotate, only the class decides."""
    model = ropecli.load_model(LLAMA | {"model_type": "mystery"})
    found = seen_of(Rotary(head_dim=16), wrong={1: None}).verdict(model)
    assert found.passed
    assert [each.note for each in found.layers] == [
        "query and key: layout interleaved, expected half: assumed, and compared with nothing",
        "query and key: not rotated: assumed, and compared with nothing",
    ]
    assert "\n  NOTE  " in str(found)
    other = seen_of(Rotary(head_dim=16, base=500.0)).verdict(model)
    assert other.layers[0].note == "query and key: base 500, expected 10000"
    assert not seen_of(Rotary(head_dim=16)).verdict(ropecli.load_model(LLAMA)).passed


def test_a_share_of_each_head_may_be_handed_alone() -> None:
    """The rotation is given the coordinates that it turns, without the size of a head."""
    share = Rotary(head_dim=16, rotary_dim=8, layout="half")
    seen = seen_of(share)
    for each in seen.vectors:
        assert each.before is not None
        assert each.after is not None
        each.before, each.after, each.head_dim = each.before[..., :8], each.after[..., :8], None
    assert seen.verdict(share).passed


def test_another_factor_on_the_score() -> None:
    found = seen_of(HALF, scale=0.5).verdict(HALF)
    assert found.layers[0].note == "the score is multiplied by 0.5, not 0.25"


def test_pair_lengths_are_those_of_all_calls() -> None:
    seen = seen_of(HALF, layers=3, wrong={1: None}, scale=0.25)
    result = seen.usage(HALF)
    assert (result.layers, result.tokens) == ((0, 2), (39, 39))
    for norms, massive in (
        (result.q_norms, result.q_massive),
        (result.k_norms, result.k_massive),
    ):
        assert massive is not None
        assert massive.shape == norms.shape
    for role, norms in (("query", result.q_norms), ("key", result.k_norms)):
        own = [v for v in seen.vectors if v.module == "layers.2.attn" and v.role == role]
        x = np.concatenate([v.before for v in own], axis=1).astype(np.float64)
        expected = np.hypot(x[..., :8], x[..., 8:]).mean(axis=1)
        assert_within(role, got=norms[1], expected=expected, tolerance=1e-14)
    assert seen.usage(HALF, layers=[2]).layers == (2,)
    assert "\n    2     0  " in str(seen.usage(HALF, layers=[2]))


def test_pair_lengths_need_a_layer_that_rotates() -> None:
    with pytest.raises(ropecli.ArgumentError, match="some of those that rotate, 0, 1, got 7"):
        seen_of(HALF).usage(HALF, layers=[7])
    with pytest.raises(ropecli.ArgumentError, match="no layer rotates"):
        seen_of(None).usage(HALF)
    with pytest.raises(ropecli.ArgumentError, match="not called; call it within"):
        Recording().usage(HALF)
    with pytest.raises(ropecli.ArgumentError, match=r"q must have shape \(..., tokens, 32\)"):
        seen_of(HALF).usage(Rotary(head_dim=32))


def test_tensors_are_recognised_again() -> None:
    found = seen_of(HALF).tensors()
    assert found["positions"].tolist() == [float(i) for i in range(sum(LENGTHS))]
    before, after = (found[f"layers.1.attn.key.{when}"] for when in ("before", "after"))
    assert ropecli.identify(before, after, found["positions"]).base == 10_000


def test_what_could_not_be_seen_is_no_failure() -> None:
    seen = seen_of(HALF)
    seen.unseen.add("layers.2.attn")
    found = seen.verdict(HALF)
    assert found.passed
    assert found.layers[2].agrees is None
    assert "name in `wrap` what rotates" in (found.layers[2].note or "")
    assert "in 2 of 3 layers; 1 could not be seen" in str(found)


def test_nothing_seen_is_refused() -> None:
    with pytest.raises(ropecli.ArgumentError, match="the model was not called; call it within"):
        Recording().verdict(HALF)
    seen = Recording()
    seen.calls = seen_of(HALF).calls
    seen.unseen.add("layers.0.attn")
    with pytest.raises(ropecli.ArgumentError, match=r"could be captured in layers\.0\.attn"):
        seen.verdict(HALF)
    with pytest.raises(ropecli.ArgumentTypeError, match="must be a Rotary or a Model, got str"):
        Recording().verdict("config.json")  # type: ignore[arg-type]


def test_watch_takes_a_model_of_pytorch() -> None:
    with (
        pytest.raises(ropecli.ArgumentTypeError, match=r"must be a torch\.nn\.Module, got str"),
        ropecli.watch("model"),
    ):
        pass


def test_the_page_names_layers_that_part_and_joins_those_that_are_alike() -> None:
    page = str(seen_of(HALF, layers=4, wrong={2: Rotary(head_dim=16)}).verdict(HALF))
    assert page.splitlines() == [
        "FAIL  not the RoPE expected in 1 of 4 layers",
        "",
        "  FAIL  layers.2.attn: query and key: layout interleaved, expected half",
        "",
        "  layers              queries and keys get                        softmax scale",
        "  3 layers (0, 1, 3)  base 10000, half, all 16 dimensions         0.25",
        "  layers.2.attn       base 10000, interleaved, all 16 dimensions  0.25",
    ]


def test_a_part_with_vectors_of_its_own_is_shown_and_not_judged() -> None:
    seen = seen_of(HALF)
    for each in seen.vectors:
        if each.module == "layers.1.attn":
            each.module = "layers.0.attn.indexer"
    found = seen.verdict(ropecli.load_model(LLAMA))
    assert [(each.module, each.agrees) for each in found.layers] == [
        ("layers.0.attn", True),
        ("layers.0.attn.indexer", None),
    ]
    assert found.layers[1].note == "part of a layer, of which nothing is expected: indexer"
    assert found.layers[1].query is not None


def test_a_table_of_longer_sequences_is_expected_of_calls_that_reach_them() -> None:
    rope = ropecli.rope(
        "dynamic", head_dim=16, layout="half", factor=4.0, max_position_embeddings=64
    )
    seen, random = seen_of(rope), np.random.default_rng(1)
    far = np.arange(0.0, 480.0, 20.0)
    seen.calls.append(ModelCall(positions=far[None, :, None], kept=np.arange(24)))
    for layer, role in itertools.product(range(2), ("query", "key")):
        x = random.standard_normal((2, 24, 16)).astype(np.float32)
        y = rotate(x, rope.at_length(461 if layer else 64), far)
        place: dict[str, Any] = {"module": f"layers.{layer}.attn", "call": len(LENGTHS)}
        seen.vectors.append(Vectors(**place, role=role, before=x, after=y, head_dim=16))
    found = seen.verdict(rope)
    assert [each.agrees for each in found.layers] == [False, True]
    assert "without dynamic NTK scaling" in (found.layers[0].note or "")


@pytest.mark.parametrize("steps", [True, False])
def test_a_temperature_is_part_of_what_is_expected(steps: bool) -> None:
    model = ropecli.load_model(
        LLAMA
        | {
            "model_type": "ministral3",
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e4,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "llama_4_scaling_beta": 0.1,
            },
        }
    )
    rope, temperature = model.layers[0].rotary, model.layers[0].settings.temperature
    assert temperature is not None
    seen = seen_of(rope)
    for each in seen.vectors if steps else ():
        if each.role == "query":
            positions = seen.calls[each.call].positions[0, :, 0]
            each.factor = np.tile(temperature(positions), (2, 1))
    found = seen.verdict(model)
    assert found.passed is steps
    if not steps:
        assert "query multiplied by 0.9" in (found.layers[0].note or "")
