"""The page of `info`."""

from __future__ import annotations

import dataclasses

from ropecli import Info

FOUND = Info(
    versions={"ropecli": "1.2.3", "python": "3.99"},
    threads=2,
    threading_layer="omp",
    cache_dir="/home/[me]/cache",
    cache_refusal="",
    plugins=(),
    formats=(".npy", ".csv"),
)


def test_one_line_a_fact() -> None:
    assert str(FOUND) == (
        "ropecli 1.2.3, Python 3.99, 2 threads, kernels kept in /home/[me]/cache\n\n"
        "ropecli          1.2.3\n"
        "python           3.99\n"
        "threads          2\n"
        "threading layer  omp\n"
        "cache folder     /home/[me]/cache\n"
        "formats          .npy .csv"
    )


def test_no_cache_is_said() -> None:
    text = str(dataclasses.replace(FOUND, cache_dir=None, cache_refusal="/c: it is shared"))
    assert "cache folder     none: /c: it is shared\n" in text
