"""Draw mutants of a session of cosmic-ray, or run the tests that reach the one in the files."""

from __future__ import annotations

import ast
import os
import random
import re
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
from coverage import CoverageData

COUNT, LEAST, SEED = 400, 15, 0  # of the package by its lines, and of each folder
SECONDS = 40.0  # of tests for one mutant, as long as they took for the coverage


def changes_nothing(tree: ast.AST, lines: list[str], row: int, column: int) -> bool:
    """Return whether a place is an annotation, a decorator's argument, or a star before a name."""
    for node in ast.walk(tree):
        spans = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        spans += getattr(node, "decorator_list", [])
        spans += (
            [node.test] if isinstance(node, ast.If) and "CHECKING" in ast.dump(node.test) else []
        )
        for each in filter(None, spans):
            begin, end = (each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset)
            if begin <= (row, column) < end:
                return True
    star = re.match(r"\*\*?\S", lines[row - 1][column:])
    return bool(star) and lines[row - 1][:column][-1:] in {"", " ", "(", "[", "{"}


def draw(session: str) -> None:
    """Leave one mutant of each place that is drawn in a session."""
    sources = {str(path): path.read_text() for path in sorted(Path("ropecli").rglob("*.py"))}
    trees = {path: (ast.parse(text), text.splitlines()) for path, text in sources.items()}
    places: dict[str, dict[tuple[str, int, int, str], list[str]]] = defaultdict(dict)
    folders = {path: "/".join(Path(path).parts[1:-1][:1]) for path in sources}
    lines = Counter[str]()
    for path, text in sources.items():
        lines[folders[path]] += text.count("\n")
    db = sqlite3.connect(session)
    for path, row, column, operator, job in db.execute(
        "SELECT module_path, start_pos_row, start_pos_col, operator_name, job_id"
        " FROM mutation_specs ORDER BY 1, 2, 3, 4, occurrence"
    ):
        place = path, row, column, operator.split("_")[0]
        places[folders[path]].setdefault(place, []).append(job)
    chance, drawn = random.Random(SEED), list[str]()
    for folder in sorted(places):
        share = max(LEAST, round(COUNT * lines[folder] / lines.total()))
        order = chance.sample(list(places[folder]), len(places[folder]))
        kept = (each for each in order if not changes_nothing(*trees[each[0]], *each[1:3]))
        drawn += [chance.choice(places[folder][next(kept)]) for _ in range(share)]
    for table in "mutation_specs", "work_items":
        marks = ",".join("?" * len(drawn))
        db.execute(f"DELETE FROM {table} WHERE job_id NOT IN ({marks})", drawn)
    db.commit()


def reaching(path: str, row: int) -> set[str]:
    """Return the tests that reach a line; else its statement, function, class, module or folder."""
    source = subprocess.check_output(["git", "show", f"HEAD:{path}"])
    inside, around = set[int](), [{row}]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            whole = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            body = getattr(node, "body", [])
            head = set(range(node.lineno, body[0].lineno)) if body else whole
            inside |= whole - head if isinstance(node, ast.FunctionDef) else set()
            scope = isinstance(node, ast.FunctionDef | ast.ClassDef)
            around += [each for each in ([head, whole] if scope else [head]) if row in each]
    data = CoverageData(".coverage")
    data.read()
    tests = data.contexts_by_lineno(str(Path(path).absolute()))
    # A line outside of functions counts as reached by the test that imports the module first.
    for lines in [*sorted(around, key=len), inside]:
        if found := {test for each in lines & inside for test in tests.get(each, ())} - {""}:
            return found
    near = [
        data.contexts_by_lineno(str(each)) for each in Path(path).absolute().parent.rglob("*.py")
    ]
    return {test for each in near for found in each.values() for test in found}


class Chosen:
    """The plugin that runs the chosen tests alone, in their order.

    Arguments would have to exist: without the compiler, some tests are not collected.
    """

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: index for index, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [each for each in items if each.nodeid in self.place]
        items[:] = sorted(chosen, key=lambda each: self.place[each.nodeid])


def run() -> int:
    """Run the tests that reach the change, quickest first, as many as `SECONDS` let."""
    diff = subprocess.check_output(["git", "diff", "-U0", "ropecli"], text=True)
    hunk = re.search(r"^--- a/(.*)$[^@]*^@@ -(\d+)", diff, re.MULTILINE)
    assert hunk, "no mutant"
    if re.match(r"ropecli/kernels/(?!jit|cache|streaming)", hunk[1]):
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    took = {
        f"{each.get('classname')}.{each.get('name')}": float(each.get("time", 0))
        for report in Path().glob("durations*.xml")
        for each in ElementTree.parse(report).iter("testcase")
    }
    found = {test.rpartition("|")[0] for test in reaching(hunk[1], int(hunk[2]))} - {""}
    cost = {test: took.get(test.replace("/", ".").replace(".py::", "."), 1.0) for test in found}
    tests, left = list[str](), SECONDS
    for test in sorted(cost, key=lambda each: (cost[each], each)):
        left -= cost[test]
        tests += [test] if left > 0 or not tests else []
    sys.stdout.write(f"{hunk[1]}:{hunk[2]}: {len(tests)} of {len(cost)} tests\n")
    options = ["-x", "-q", "-n", "0", "-m", "", "--tb=line", "-p", "no:cacheprovider"]
    limit = ["-o", "faulthandler_timeout=30", "-o", "faulthandler_exit_on_timeout=true"]
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    status = pytest.main([*options, *limit, *files], plugins=[Chosen(tests)]) if tests else 0
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    if sys.argv[1:]:
        draw(sys.argv[1])
    else:
        sys.exit(run())
