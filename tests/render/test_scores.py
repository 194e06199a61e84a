"""Words and pictures for `scores`, from results made by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ropecli.analyses.invariance import Invariance, Property
from ropecli.analyses.scores import ScoreMap, Scores
from ropecli.render import scores as pages
from ropecli.render.console import Screen

YES = Property(max_error=1.2e-15, tolerance=1e-12, theory=True)
NO = Property(max_error=3.4, tolerance=1e-12, theory=False)
UNKNOWN = Property(max_error=None, tolerance=None, theory=None)
WRONG = Property(max_error=3.4, tolerance=1e-12, theory=True)
FALLS = Property(max_error=-0.5, tolerance=-1e-12, theory=None)


def invariance_of(name: str = "made", **other: Property) -> Invariance:
    plain = {
        "translation_invariance": YES,
        "symmetry": NO,
        "boundedness": YES,
        "decay": FALLS,
        "linear_shift": UNKNOWN,
    }
    return Invariance(name=name, **(plain | other))


def shown(name: str = "made", equation: str = "16") -> ScoreMap:
    return ScoreMap(
        name=name,
        equation=equation,
        scores=np.array([[1.0, -np.inf], [2.0, 3.0]]),
        output=np.ones((2, 2)),
        terms={},
    )


def scores(*maps: ScoreMap, measured: list[Invariance], head: int = 0) -> Scores:
    return Scores(maps=maps, invariances=tuple(measured), head=head, seed=7)


def page(measured: list[Invariance]) -> str:
    return "\n".join(pages.page(scores(measured=measured), Screen(brief=True)))


def test_disagreement_is_told_with_its_numbers() -> None:
    assert page([invariance_of(), invariance_of("bad", boundedness=WRONG)]) == (
        "FAIL: 1 disagreement with theory, seed 7\n\n"
        "  bad: bounded was measured no (error 3.4, tolerance 1e-12), theory says yes"
    )


def with_scores(values: list[list[float]]) -> ScoreMap:
    return dataclasses.replace(shown(), scores=np.array(values))


@pytest.mark.parametrize(
    ("values", "limits", "colours"),
    [
        ([[1.0, 2.0], [-3.0, 0.5]], (-3, 3), "RdBu_r"),  # white is 0
        ([[1.0, 2.0], [3.0, 3.0]], (1, 3), "viridis"),
        ([[-1.0, -2.0], [-3.0, -np.inf]], (-3, -1), "viridis"),
        ([[0.5, 0.5], [0.5, 0.5]], (0.25, 0.75), "viridis"),  # and not rounding, magnified
    ],
)
def test_the_scale_is_that_of_the_scores(
    values: list[list[float]], limits: tuple[float, float], colours: str
) -> None:
    picture = scores(with_scores(values), measured=[]).figure()
    assert picture.get_suptitle() == "scores of head 0, seed 7"
    assert picture.axes[0].images[0].get_clim() == limits
    assert picture.axes[0].images[0].get_cmap().name == colours


def test_titles_name_equations_of_the_paper_alone() -> None:
    assert pages.map_title(shown("rope", "16")) == "rope (Eq. 16)"
    assert pages.map_title(shown("fire", "FIRE section 3")) == "fire"
