"""Pages about released libraries and PyTorch show the output of their commands."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from helpers import ROOT

pytestmark = pytest.mark.oracle

SCRIPT = ROOT / "examples" / "case_studies" / "make.py"
COMMAND = "check onnx_runtime.py:half --layout half --context 4096 --select rotation -q"


def script(page: Path, text: str) -> ModuleType:
    """The script, about another page."""
    spec = spec_from_file_location("case_studies_make", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page.write_text(text)
    vars(module)["PAGES"] = {page: SCRIPT.parent}
    return module


def test_a_page_is_written_and_a_stale_one_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    make = script(page, f"Before.\n\n<!-- output: {COMMAND} -->\n<!-- end -->\n\nAfter.\n")
    assert make.main(["--check"]) == 1
    assert capsys.readouterr().out == f"{COMMAND}\n"
    assert make.main([]) == 0
    written = page.read_text()
    assert f"```text\n$ ropecli {COMMAND}\nPASS  onnx_runtime.py:half is the RoPE" in written
    assert written.startswith("Before.\n\n<!--")
    assert written.endswith("-->\n\nAfter.\n")
    assert make.main(["--check"]) == 0
    page.write_text(written.replace("PASS", "FAIL"))
    assert make.main(["--check"]) == 1


def test_numbers_and_line_breaks_may_move(tmp_path: Path) -> None:
    words = script(tmp_path / "page.md", "").words
    assert words("off by 0.0049 rad\n  at 99,991") == words("off by 5e-05 rad at 1.")
    assert words("off by 0.0049 rad") != words("off by 0.0049 deg")


def test_a_command_that_can_not_run_is_no_output(tmp_path: Path) -> None:
    make = script(tmp_path / "page.md", "<!-- output: check no.py:f -->\n<!-- end -->\n")
    with pytest.raises(RuntimeError, match=r"ropecli check no\.py:f ended with"):
        make.main([])
