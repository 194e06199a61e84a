"""Every rope type has a page with the same parts, a figure, and all of its keys."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
from helpers import ROOT

from ropecli.rotary.types import ALIASES, ROPE_TYPES, own_parameters

PAGES = ROOT / "docs" / "rope-types"
TOPICS = {"index", "mrope", "partial", "attention"}  #: Pages that are not about one type.
PARTS = [
    "Formula",
    "Source",
    "Keys",
    "A published number",
    "Where paper and code part",
    "What goes wrong",
]
WITH_FIGURE = sorted({*ROPE_TYPES, "mrope", "partial"})


def text(page: str) -> str:
    return (PAGES / f"{page}.md").read_text()


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_type_has_a_page_and_every_page_a_place() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages == {*ROPE_TYPES, *TOPICS}
    listed = text("index").partition("```{toctree}")[2].split()
    assert pages - {"index"} <= set(listed)


@pytest.mark.parametrize("page", WITH_FIGURE)
def test_pages_have_the_same_parts(page: str) -> None:
    headings = re.findall(r"^## (.*)$", text(page), re.MULTILINE)
    assert headings == PARTS
    assert f"](../images/rope-types/{page}.svg)" in text(page)
    number = text(page).partition("## A published number")[2].partition("\n## ")[0]
    assert re.search(r"^```python\n(.*\n)*?(    )*assert ", number, re.MULTILINE)


@pytest.mark.parametrize("rope_type", ROPE_TYPES)
def test_a_page_names_every_parameter(rope_type: str) -> None:
    keys = text(rope_type).partition("## Keys")[2].partition("\n## ")[0]
    for name in own_parameters(rope_type):
        assert f"| `{name}` |" in keys


def test_the_index_names_every_type_and_alias() -> None:
    for rope_type in ROPE_TYPES:
        assert f"| [`{rope_type}`]({rope_type}.md) |" in text("index")
    for alias, rope_type in ALIASES.items():
        row = next(line for line in text("index").splitlines() if line.startswith(f'| `"{alias}"'))
        assert f"({rope_type}.md)" in row


def test_every_figure_compares_with_the_default(figures: ModuleType) -> None:
    assert sorted(figures.FIGURES) == WITH_FIGURE
    for page, make in figures.FIGURES.items():
        title, curves, _ = make()
        types = {rope.rope_type for _, rope in curves}
        assert title
        assert len(curves) > 1, page
        assert page not in ROPE_TYPES or page in types, page
        assert types == {page} or "default" in types, page


@pytest.mark.slow
def test_a_stale_picture_is_noticed(figures: ModuleType) -> None:
    drawn, stored = figures.picture("rope-types/linear"), PAGES.parent / "images" / "rope-types"
    assert figures.looks_like((stored / "linear.svg").read_bytes(), drawn)
    assert not figures.looks_like((stored / "ntk.svg").read_bytes(), drawn)
    assert not figures.looks_like(drawn.replace(b">pair<", b">pairs<"), drawn)
    moved = re.sub(rb"(?<=L )\d", lambda digit: b"%d" % (9 - int(digit[0])), drawn)
    assert not figures.looks_like(moved, drawn)


def test_threads_are_links() -> None:
    threads = re.findall(r"<gh:([^>]*)>", "".join(text(page.stem) for page in PAGES.glob("*.md")))
    assert len(threads) > 50
    for thread in threads:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread), thread
