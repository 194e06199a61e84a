"""The pages of the commands are fresh, and name every command, option and JSON key."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.samples import FAILING, RUNS, write_files
from helpers import ROOT, oracle, read_json, run_process

from ropecli.checks.accuracy import ACCURACY, ANGLE
from ropecli.checks.implementation.laws import LAWS as CHECK_LAWS
from ropecli.checks.rotation_laws import LAWS
from ropecli.checks.rotation_laws.subject import COUNT
from ropecli.cli.app import build

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
GROUP = build()
#: A second run of what fills other keys.
MORE_RUNS = {
    "inspect": [["--examples"]],
    "base-bound": [["--scan", "--dim", "8", "--context", "10", "--grid", "3"]],
    "decay": [
        ["--encoding", "sinusoidal", "--dim", "2", "--max-dist", "1"],
    ],
}


def generate(*arguments: str, docs: Path = DOCS) -> subprocess.CompletedProcess[str]:
    script = docs / "generate.py"
    return run_process(sys.executable, script, *arguments, timeout=300, NUMBA_DISABLE_JIT="0")


def page(command: str) -> str:
    return (DOCS / "commands" / f"{command}.md").read_text()


def test_a_stale_page_is_named_and_regenerated(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "commands").mkdir(parents=True)
    shutil.copy(DOCS / "generate.py", docs)
    fresh = page("decay")
    stale = docs / "commands" / "decay.md"
    stale.write_text(fresh.replace("`--max-dist R`", "`--furthest R`"))
    done = generate("--check", docs=docs)
    assert (done.returncode, done.stdout) == (1, "docs/commands/decay.md\n")
    assert "--furthest" in stale.read_text()
    assert generate(docs=docs).returncode == 0
    assert stale.read_text() == fresh


@pytest.mark.parametrize("command", GROUP.commands)
def test_every_option_is_on_the_page_and_explained(command: str) -> None:
    # `-h` is the same everywhere, and on the page of all commands.
    for parameter in GROUP.commands[command].params:
        names = parameter.opts if parameter.opts[0].startswith("-") else [parameter.metavar]
        row = next(
            (line for line in page(command).splitlines() if line.startswith(f"| `{names[0]}")), ""
        )
        for name in names:
            assert re.search(rf"{re.escape(name)}(?!\w)", row), f"{command} {name} is not listed"
        assert parameter.help, f"{command} {names[-1]} has no help text"


def test_every_command_has_a_page() -> None:
    pages = {path.stem for path in (DOCS / "commands").glob("*.md")} - {"index"}
    assert pages == set(GROUP.commands)
    for command in GROUP.commands:
        assert f"[`{command}`]({command}.md)" in page("index")


def test_options_of_the_group_are_on_the_index() -> None:
    for parameter in GROUP.params:
        option = parameter.opts[-1]
        assert option in page("index") or option == "--show-completion", option


@pytest.mark.parametrize("command", [*sorted({*GROUP.commands} - {"trace"}), *oracle("trace")])
def test_json_keys_are_those_of_the_page(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    found = set()
    for words in (RUNS[command], *MORE_RUNS.get(command, [])):
        code = int(command in FAILING and words[0] != "--examples")
        found |= set(keys(read_json(command, *words, code=code)["result"], "result"))
    listed = set(re.findall(r"^\| `(result\.[^`]+)` \|", page(command), re.MULTILINE))
    assert listed == found


def keys(value: dict[str, Any], prefix: str) -> list[str]:
    """The keys of an object, and of the objects in its lists."""
    found = []
    for key, item in value.items():
        found.append(f"{prefix}.{key}")
        if isinstance(item, list) and item and isinstance(item[0], dict):
            found += keys(item[0], f"{prefix}.{key}[]")
    return found


def test_every_law_is_on_the_page_of_verification() -> None:
    text = (DOCS / "verification.md").read_text()
    for law in LAWS:
        assert f"| {law.name} | {law.equation} |" in text
        assert law.because, law.name
    assert f"judged on {COUNT} vectors" in text


def test_bounds_are_those_that_verify_judges_by() -> None:
    text = (DOCS / "verification.md").read_text()
    for dtype, said in [
        ("float64", f"({ACCURACY['float64'].relative:g} + {ANGLE:g} \\|m θ\\|) A \\|pair\\|"),
        ("float32", f"{ACCURACY['float32'].ulps} ulp of A \\|pair\\|"),
        ("float16, bfloat16", f"{ACCURACY['float16'].ulps} ulp of A \\|pair\\|"),
    ]:
        assert f"| {dtype} | {said}" in text


def test_every_equation_and_erratum_is_on_the_theory_page() -> None:
    text = (DOCS / "theory.md").read_text()
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    numbers: set[int] = set()
    for heading in headings:
        if found := re.match(r"Eq\. ([\d, to]+?):", heading):
            for part in found[1].split(","):
                ends = [int(number) for number in part.split("to")]
                numbers |= set(range(ends[0], ends[-1] + 1))
    assert numbers == set(range(1, 38))
    assert {"Figure 1", "Figure 2", "B 2, 3"} <= {heading.split(":")[0] for heading in headings}
    errata = text.partition("## Errata")[2].partition("## Claims")[0]
    anchors = set(re.findall(r"\]\(#([^)]+)\)", errata))
    titles = {slug(heading) for heading in re.findall(r"^### (.*)$", errata, re.MULTILINE)}
    assert anchors == titles


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_law_of_check_is_on_its_page() -> None:
    listed = set(re.findall(r"`([^`]+)`", page("check").partition("## The checks")[2]))
    assert {law.name for law in CHECK_LAWS} <= listed
