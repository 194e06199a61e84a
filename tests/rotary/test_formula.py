"""Formulas of tables, tables that depend on the sequence length, and code that names rope types."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli import ArgumentError, Rotary, rope
from ropecli.rotary.types import ALIASES, ROPE_TYPES

DYNAMIC: dict[str, Any] = {"factor": 4.0, "max_position_embeddings": 64}
LONGROPE: dict[str, Any] = {
    "short_factor": [1.0] * 4,
    "long_factor": [1.0, 2.0, 4.0, 8.0],
    "original_max_position_embeddings": 64,
    "factor": 4.0,
}


@pytest.mark.parametrize(("rope_type", "own"), [("dynamic", DYNAMIC), ("longrope", LONGROPE)])
@pytest.mark.parametrize("length", [1, 64, 65, 1000])
def test_the_table_at_a_length_is_the_one_made_for_it(
    rope_type: str, own: dict[str, Any], length: int
) -> None:
    placed: dict[str, Any] = {"head_dim": 10, "rotary_dim": 8, "layout": "half", "rotary_offset": 2}
    whole = rope(rope_type, **placed, **own)
    assert whole.depends_on_length
    assert whole.sequence_length is None
    made = whole.at_length(length)
    asked = rope(rope_type, **placed, **own, sequence_length=length)
    assert made == asked
    assert (made.base, made.parameters) == (asked.base, asked.parameters)
    assert made.sequence_length == length
    assert made.at_length(65) == whole.at_length(65)


@pytest.mark.parametrize(
    "made",
    [
        Rotary(head_dim=8),
        Rotary.from_inv_freq([1.0, 0.5]),
        rope("dynamic", head_dim=8, alpha=8.0),
        rope("dynamic", head_dim=8, alpha=8.0, sequence_length=100),
        rope("longrope", head_dim=8, **LONGROPE | {"long_factor": [1.0] * 4}),
        rope("yarn", head_dim=8, factor=4.0, original_max_position_embeddings=64),
    ],
)
def test_other_tables_are_the_same_at_every_length(made: Rotary) -> None:
    assert not made.depends_on_length
    assert made.sequence_length is None
    assert made.at_length(1000) is made


def test_a_base_that_only_long_sequences_make_infinite_depends_on_length() -> None:
    made = rope("dynamic", head_dim=4, rope_theta=1e300, **DYNAMIC)
    assert made.depends_on_length
    with pytest.raises(ArgumentError, match="stretched base must be finite"):
        made.at_length(2**53)


@pytest.mark.parametrize("length", [0, -1, 2**53 + 1])
def test_a_length_out_of_range_is_refused(length: int) -> None:
    with pytest.raises(ArgumentError, match="sequence_length must be from 1"):
        Rotary(head_dim=8).at_length(length)


def test_the_formula_computes_the_table_again() -> None:
    made = rope("llama3", head_dim=128, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=8192)  # fmt: skip
    assert made.formula is not None
    assert np.array_equal(made.formula.table().inv_freq, made.inv_freq)
    assert made.formula.unscaled == Rotary(head_dim=128).formula
    assert made.formula.replace(factor=1.0).get("factor") == 1.0
    with pytest.raises(ArgumentError, match="has no parameter alpha"):
        made.formula.replace(alpha=1.0)


def test_another_table_or_axis_keeps_the_rest() -> None:
    made = rope("ntk", head_dim=8, rotary_dim=4, factor=2.0, layout="half", direction="reversed")
    other = made.with_inv_freq([0.5, 0.25], attention_factor=1.5)
    assert other == Rotary.from_inv_freq(
        [0.5, 0.25], head_dim=8, layout="half", direction="reversed", attention_factor=1.5
    )
    assert (other.formula, other.base) == (None, None)
    assert made.with_inv_freq(made.inv_freq) == made
    assert made.with_axis([0, 2]).axis == (0, 2)
    assert made.with_axis([0, 2]).formula == made.formula
    with pytest.raises(ArgumentError, match=r"inv_freq must be finite numbers of shape \(2,\)"):
        made.with_inv_freq([1.0])
    with pytest.raises(ArgumentError, match=r"axis must be integers of shape \(2,\)"):
        made.with_axis([0])


#: Code that makes and reads rope types. Golden vectors are a list of arguments of `rope`, and
#: `scale` compares methods, most of them a rope type with some values. `positions` has an option of
#: the name mrope.
KNOWING = (
    *("rotary/types/", "models/", "checks/vectors/recipes.py"),
    *("analyses/scale.py", "render/scale.py"),
    *("checks/positions/", "cli/positions.py"),
)
#: Also the name of a command, an ordinary word, the name of an encoding.
AMBIGUOUS = {"linear", "default", "xpos"}


@pytest.mark.slow
def test_only_what_makes_an_encoding_knows_rope_types() -> None:
    package = Path(ropecli.__file__).parent
    found: list[str] = []
    for path in package.rglob("*.py"):
        if str(path.relative_to(package)).startswith(KNOWING):
            continue
        code = path.read_text(encoding="utf-8")
        if not any(name in code for name in (*ROPE_TYPES, *ALIASES)):
            continue
        tree = ast.parse(code)
        names = {name for node in ast.walk(tree) for name in _rope_types_in(node)}
        found += [f"{path.relative_to(package)}: {name}" for name in sorted(names)]
    assert found == []


def _rope_types_in(node: ast.AST) -> set[str]:
    """Rope types that a piece of code names: unmistakable ones, and others it compares with."""
    known = {*ROPE_TYPES, *ALIASES}
    if isinstance(node, ast.Compare) and "rope_type" in ast.unparse(node):
        return known & {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (known - AMBIGUOUS) & {node.value}
    return set()


@pytest.mark.parametrize(
    "code",
    ['rope.rope_type == "default"', 'rope_type in {"linear", "x"}', 'f("yarn")', '{"su": 1}'],
)
def test_code_that_names_a_rope_type_is_found(code: str) -> None:
    assert any(_rope_types_in(node) for node in ast.walk(ast.parse(code)))
