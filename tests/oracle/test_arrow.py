"""Results read by polars and pandas, through Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli.results import Result

pytestmark = pytest.mark.oracle

RESULTS = (
    ropecli.decay(ropecli.Rotary(8), max_distance=4),
    ropecli.frequency_table(ropecli.Rotary(8)),
    ropecli.base_bound(ropecli.Rotary(8), positions=100),
    ropecli.info(),
)


def by_polars(result: Result) -> Any:
    return pytest.importorskip("polars").DataFrame(result)


def by_pandas(result: Result) -> Any:
    return pytest.importorskip("pandas").DataFrame.from_arrow(result)


@pytest.mark.parametrize("read", [by_polars, by_pandas])
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_frame_has_the_columns_of_the_table(read: Any, result: Result) -> None:
    frame = read(result)
    table = result.table()
    assert list(frame.columns) == list(table)
    for name, values in table.items():
        np.testing.assert_array_equal(np.asarray(frame[name]), values, err_msg=name)


def test_pandas_takes_results_as_they_are() -> None:
    import pandas as pd

    curve = ropecli.decay(ropecli.Rotary(8), max_distance=4)
    assert pd.DataFrame(curve).to_dict("list") == {k: v.tolist() for k, v in curve.table().items()}
    misspelt = {"model_type": "llama", "head_dim": 8, "rope_theta": "1e6"}
    assert "R001" in set(pd.DataFrame(ropecli.lint(misspelt)).rule)
