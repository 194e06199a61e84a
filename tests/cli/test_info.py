"""The info command."""

from __future__ import annotations

import json

import pytest

import ropecli
from ropecli.cli.app import run


def test_document_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    got = json.loads(printed.out)
    assert (got["schema"], got["version"]) == ("ropecli.info/1", ropecli.__version__)
    assert got["parameters"] == {}
    result = got["result"]
    assert set(result) == {"versions", "threads", "threading_layer", "cache_dir", "formats"}
    assert result["versions"]["ropecli"] == ropecli.__version__
    assert result["threads"] >= 1
    assert ".npy" in result["formats"]


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_words(quiet: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", *quiet]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith(f"ropecli          {ropecli.__version__}\npython           3.")
    for fact in ("threads", "threading layer", "cache folder", "formats"):
        assert f"\n{fact} " in printed.out
