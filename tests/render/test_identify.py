"""The page and document of `identify`, from results made by hand."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import numpy as np
import pytest

from ropecli import Identification, Match, Rotary, rope
from ropecli.render import document
from ropecli.render import identify as pages
from ropecli.render.console import Screen
from ropecli.render.identify_flags import flags


def result(rotary: Rotary, **fields: Any) -> Identification:
    known: dict[str, Any] = {
        "shape": (2, 4096, rotary.head_dim),
        "sequence_axis": 1,
        "position_offset": 0.0,
        "position_step": 1.0,
        "max_residual": 1.26,
        "precision": "exact",
        "rotary": rotary,
        "positions": np.arange(4096.0),
    }
    return Identification(dtype="float32", rows=4096, vectors=8192, **(known | fields))


def shown(
    found: Identification,
    candidates: dict[str, Rotary] | None = None,
    screen: Screen | None = None,
) -> str:
    return "\n".join(pages.page(found, screen or Screen(), candidates=candidates)) + "\n"


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"position_offset": None}, "position offset   differs by axis"),
        ({"position_offset": 5.0000000003}, "position offset   5"),
        ({"position_offset": 2.5, "position_step": 0.5}, "position step     0.5"),
        ({"max_residual": 212.4}, "agreement         212 ulp of float32"),
        ({"max_residual": 3.2e8}, "agreement         3e+08 ulp of float32"),
        ({"max_residual": math.inf}, "agreement         inf ulp of float32"),
        ({"precision": "float32 angles"}, "precision         float32 angles"),
    ],
)
def test_a_row(fields: dict[str, Any], row: str) -> None:
    assert f"  {row}" in shown(result(Rotary(head_dim=8), **fields))


def test_an_offset_that_is_whole_but_for_rounding_is_an_option() -> None:
    text = shown(result(Rotary(head_dim=8), position_offset=5.0000000003))
    assert text.endswith("\n  encode takes the positions: --offset 5\n")
    text = shown(result(Rotary(head_dim=8), position_offset=2.5))
    assert text.endswith("--positions FILE, with 2.5 + 1 m for m\n")


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (
            Rotary(head_dim=8, pairs_out=[[0, 2], [1, 3], [4, 6], [5, 7]]),
            "pairs written where they are read, expected to (0, 2), ...",
        ),
        (Rotary(head_dim=8, rotary_dim=4), "rotary dim 8, expected 4"),
        (rope("xpos", head_dim=8, scale_base=512), "lengths constant, expected growing"),
    ],
)
def test_why_a_candidate_is_another(candidate: Rotary, said: str) -> None:
    match = Match(name="c.json", max_phase_error=math.inf, matches=False)
    text = shown(result(Rotary(head_dim=8), matches=(match,)), {"c.json": candidate})
    assert f"  c.json differs: {said}" in text
    assert "inf" not in text


def test_long_flags_are_one_command_for_a_shell() -> None:
    """Lines end in a backslash, save within a list, where it would belong to the list."""
    odd = rope(
        "llama3",
        head_dim=32,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
        direction="reversed",
        pairs_out=Rotary(head_dim=32, layout="half").pairs_in,
    )
    printed = shown(result(odd), screen=Screen(width=80)).partition("  As flags: ")[2]
    assert max(map(len, printed.splitlines())) <= 80
    words = flags(result(odd))
    assert words is not None
    pasted = [" ".join(word.split()) for word in shlex.split(printed.replace("\\\n", ""))]
    assert pasted == words
    assert printed.count("\\\n") > 1


@pytest.mark.parametrize(("unsure", "said"), [(1e-12, False), (1e-6, True)])
def test_options_are_those_of_a_base_as_far_as_it_was_measured(unsure: float, said: bool) -> None:
    exact = Rotary(head_dim=8, base=33_333.0, layout="half")
    table = exact.inv_freq * (1 + 1e-7)
    measured = Rotary.from_inv_freq(table, head_dim=8, layout="half", formula=exact.formula)
    found = result(measured, uncertainty=unsure * table)
    assert (flags(found) is not None) == said


def test_a_name_can_not_write_to_the_terminal() -> None:
    name = "\x1b[31mred\n.json"
    match = Match(name=name, max_phase_error=0.0, matches=True)
    custom = Rotary.from_inv_freq([0.9, 0.3], head_dim=4)
    text = shown(result(custom, matches=(match,)), {name: custom})
    assert "\x1b" not in text
    assert "  \\x1b[31mred\\n.json matches exactly.\n" in text


def test_document_has_no_infinity() -> None:
    match = Match(name="c.json", max_phase_error=math.inf, matches=False)
    found = result(Rotary(head_dim=8), matches=(match,), max_residual=math.inf)
    got = json.loads(document.text("identify", {}, pages.as_json(found)))["result"]
    (shown,) = got["matches"]
    assert (shown["name"], shown["max_phase_error"], shown["matches"]) == ("c.json", None, False)
    assert got["max_residual"] is None
    assert not {"rotary", "positions"} & set(got)


def test_flags_that_would_make_another_rotation_are_not_given() -> None:
    odd = Rotary.from_inv_freq([1.0, 0.3], head_dim=4, formula=Rotary(head_dim=4).formula)
    assert flags(result(odd)) is None
    match = Match(name="m", max_phase_error=0.0, matches=True)
    words = {"m": ["--model", "m.json"], "other": ["--model", "other.json"]}
    assert flags(result(odd, matches=(match,)), words) == ["--model", "m.json"]
    turned = Rotary(head_dim=4, base=100.0, attention_factor=1.2)
    found = flags(result(turned))
    assert found is not None
    assert found[:6] == ["--dim", "4", "--layout", "interleaved", "--base", "100"]
    assert "attention_factor=1.2" in found


def test_print_shows_the_short_page() -> None:
    found = result(Rotary(head_dim=8, layout="half"), notes=("something is not known",))
    assert str(found) == shown(found, screen=Screen(brief=True)).rstrip()
    assert "something is not known" not in str(found)
    assert "As flags" not in str(found)
