"""The additions of the contributing page work once their files are in place, and no sooner."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from helpers import ROOT, run_process, run_python

import ropecli
from ropecli.rotary import Rotary

PAGE = (ROOT / "docs" / "contributing.md").read_text()
USE = """
import ropecli
rope = ropecli.rope("whole_turns", head_dim=8, max_position_embeddings=700)
assert ropecli.__file__.startswith({folder!r})
print(rope)
"""


def copy_package(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ropecli", folder / "ropecli", ignore=ignored)


@pytest.mark.slow
@pytest.mark.parametrize("dropped_in", [True, False])
def test_one_file_adds_a_rope_type(dropped_in: bool, tmp_path: Path) -> None:
    found = re.search(
        r"```python\n# ropecli/(rotary/types/whole_turns\.py)\n(.*?)```", PAGE, re.DOTALL
    )
    assert found is not None
    copy_package(tmp_path)
    if dropped_in:
        (tmp_path / "ropecli" / found[1]).write_text(found[2])
    done = run_python(USE.format(folder=str(tmp_path)), cwd=tmp_path, PYTHONPATH=str(tmp_path))
    if dropped_in:
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Rotary(head_dim=8, base=10000.0")
        assert "rope_type='whole_turns'" in done.stdout
    else:
        assert "rope type must be one of axial, " in done.stderr
        assert "got 'whole_turns'" in done.stderr


@pytest.mark.slow
def test_four_files_and_one_line_add_an_analysis(tmp_path: Path) -> None:
    copy_package(tmp_path)
    section = PAGE.partition("## Add an analysis")[2].partition("\n## ")[0]
    modules = re.findall(r"```python\n   # (ropecli/\S+)\n(.*?)   ```", section, re.DOTALL)
    (docs_page,) = re.findall(r"```text\n(.*?)   ```", section, re.DOTALL)
    files = {name: textwrap.dedent(code) for name, code in modules}
    assert list(files) == [f"ropecli/{room}/turns.py" for room in ("analyses", "render", "cli")]
    files["docs/commands/turns.md"] = textwrap.dedent(docs_page)
    assert sum(len(text.splitlines()) for text in files.values()) < 120
    (tmp_path / "docs" / "commands").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    commands = tmp_path / "ropecli" / "cli" / "app.py"
    text = commands.read_text()
    place = '    "Study encodings": ('
    assert text.count(place) == 1
    commands.write_text(text.replace(place, f'{place}"turns", '))

    def run(*words: str, module: str = "-mropecli") -> str:
        path = str(tmp_path)
        done = run_process(sys.executable, module, *words, cwd=tmp_path, PYTHONPATH=path)
        assert (done.returncode, done.stderr) == (0, ""), words
        return done.stdout

    line = r"  turns +Count the turns of each rotated pair within a context\n"
    assert re.search(line, run("--help"))
    assert re.search(
        r"--context N +Context length\. \[default: the model's\]\n", run("turns", "--help")
    )
    words = ["turns", "--dim", "4", "--context", "100"]
    assert (
        run(*words)
        == "The slowest pair makes 0.1592 turns within 100 positions.\n\n0   15.92\n1  0.1592\n"
    )
    document = json.loads(run(*words, "--json"))
    assert document["schema"] == "ropecli.turns/1"
    assert (document["parameters"]["dim"], document["parameters"]["context"]) == (4, 100)
    expected = (100 / Rotary(head_dim=4).wavelength).tolist()
    assert document["result"] == {"context_length": 100, "turns": expected}
    assert run(*words, "-o", "x.csv").endswith("\nWritten: x.csv\n")
    heading, *rows = csv.reader((tmp_path / "x.csv").read_text().splitlines())
    assert heading == ["pair", "turns"]
    assert [(int(pair), float(turns)) for pair, turns in rows] == list(enumerate(expected))
    run(*words, "-o", "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    use = "import ropecli.analyses.turns as t; from ropecli import Rotary as R\n"
    use += "r = t.turns(R(head_dim=4)); print(r); print(r._repr_html_()); print(r.figure())"
    assert run(use, module="-c").startswith("The slowest pair makes ")
    for name in ("generate.py", "figures.py"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    run(module="docs/generate.py")
    assert (
        "| `--context N` | Context length. [default: the model's] |  |"
        in (tmp_path / "docs/commands/turns.md").read_text()
    )
    assert not hasattr(ropecli, "turns")
