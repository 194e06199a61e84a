"""The built pages are complete without a network: formulas, pictures, scripts and fonts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

pytestmark = pytest.mark.oracle

PAGES = ("index", "theory", "commands/scale", "gallery/index", "reference")
TEX = r"() => document.body.innerText.match(/\$\$|\\[a-zA-Z]{2,}|\{[a-z-]+\}`/)?.[0]"
#: Names of pictures that have no pixels, and formulas without an extent.
MISSING = """() => [
  ...[...document.images].filter(each => !each.naturalWidth).map(each => each.src),
  ...[...document.querySelectorAll("math")].filter(each => !each.getBoundingClientRect().height)
    .map(each => each.textContent),
  ...[...document.querySelectorAll("merror")].map(each => each.textContent),
]"""

#: Backgrounds of pictures, which are drawn for a light page.
GROUNDS = """() =>
  [...document.querySelectorAll("article img")].map(each => getComputedStyle(each).backgroundColor)
"""


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages: those that ROPECLI_HTML names, or else built here."""
    if built := os.environ.get("ROPECLI_HTML"):
        return Path(built)
    folder = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "docs", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_needs_no_network(name: str, scheme: str, html: Path, browser: Browser) -> None:
    context = browser.new_context(offline=True, color_scheme=scheme)
    page = context.new_page()
    wrong = watch(page)
    page.goto((html / f"{name}.html").as_uri(), wait_until="load")
    for picture in page.query_selector_all("img"):
        picture.scroll_into_view_if_needed()
    assert page.evaluate(MISSING) == []
    assert page.evaluate(without_code(TEX)) is None
    if name == "theory":
        assert page.locator("math").count() > 100
        assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"')")
    assert set(page.evaluate(GROUNDS)) <= {"rgb(255, 255, 255)"}
    assert wrong == []
    context.close()


def watch(page: Page) -> list[str]:
    """Return a list that collects failures, warnings and requests of the network."""
    wrong: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            wrong.append(message.text)

    def on_request(request: Request) -> None:
        if not request.url.startswith(("file://", "data:")):
            wrong.append(request.url)

    page.on("console", on_console)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", on_request)
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    return wrong


def without_code(script: str) -> str:
    """Return a script that runs another one with all code removed from the page."""
    removed = "document.querySelectorAll('pre, code').forEach(each => each.remove());"
    return f"() => {{ {removed} return ({script})() ?? null }}"


def test_missing_parts_are_noticed(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        r"<p>$$\frac{a}{b}$$</p><img src=gone.png><script src=https://cdn.invalid/a.js></script>"
    )
    context = browser.new_context(offline=True)
    page = context.new_page()
    wrong = watch(page)
    page.goto((tmp_path / "page.html").as_uri(), wait_until="load")
    assert page.evaluate(without_code(TEX)) == "$$"
    assert len(page.evaluate(MISSING)) == 1
    assert "https://cdn.invalid/a.js" in wrong
    context.close()


def test_every_example_can_be_downloaded(html: Path) -> None:
    pages = [page for page in (html / "gallery").glob("*.html") if page.stem != "index"]
    assert len(pages) >= 16
    for page in pages:
        for suffix in ("py", "ipynb"):
            assert len(list(html.glob(f"_downloads/*/{page.stem}.{suffix}"))) == 1
        pictures = re.findall(rf"<img [^>]*sphx_glr_{page.stem}_\d+", page.read_text())
        assert len(pictures) == 1, page.stem
