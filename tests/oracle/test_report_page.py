"""The page of `report` in a browser: Debian's Chromium, and axe for accessibility."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from models.configs import GEMMA_3, LLAMA_31

import ropecli

pytestmark = pytest.mark.oracle

LLAMA = LLAMA_31 | {"rope_scaling": LLAMA_31["rope_scaling"] | {"attn_factor": 0.9}}  # a finding
SHORT = {"max_position_embeddings": 4096, "sliding_window": 1024}


class Opened(NamedTuple):
    page: Any
    said: list[str]  #: Messages on the console.
    asked: list[str]  #: Addresses that the page loaded, itself included.


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two models with three rotations."""
    written = tmp_path_factory.mktemp("page") / "report.html"
    written.write_text(ropecli.report(LLAMA, GEMMA_3 | SHORT).html())
    return written


def visit(browser: Any, file: Path, **look: Any) -> Opened:
    opened = Opened(browser.new_context(**look).new_page(), [], [])
    opened.page.on("console", lambda message: opened.said.append(message.text))
    opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.page.on("request", lambda request: opened.asked.append(request.url))
    opened.page.goto(file.as_uri())
    return opened


def leave(opened: Opened, file: Path) -> None:
    """Assert that nothing went wrong, and that nothing was loaded but the page."""
    assert opened.said == []
    assert opened.asked == [file.as_uri()]
    opened.page.context.close()


def texts(page: Any, column: int) -> list[str]:
    """Return a column of the table of methods."""
    found: list[str] = page.locator(
        f"#scale tbody tr > :nth-child({column + 1})"
    ).all_text_contents()
    return found


def test_sliders_turn_the_wheels_and_move_the_marks(browser: Any, file: Path) -> None:
    opened = visit(browser, file)
    page = opened.page
    rope = ropecli.load_model(LLAMA).layer().rotary
    assert rope is not None
    curve = ropecli.decay(rope, max_distance=1024)
    wheel, dot = page.locator(".wheel").first, page.locator("#decay-marks circle").first
    before = wheel.locator(".query").first.get_attribute("cx"), dot.get_attribute("cx")
    page.get_by_label("Distance to the key").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")  # a reader without a mouse
    assert page.locator("#apart").text_content() == "20"
    assert page.locator("#key-at").text_content() == "44"
    bound = float(wheel.locator(".bound").text_content())
    assert abs(bound - curve.relative_upper_bound[20]) <= 5e-5  # four digits are shown
    assert float(dot.get_attribute("cx")) > float(before[1])
    assert wheel.locator(".query").first.get_attribute("cx") == before[0]  # it has not moved
    where = dot.get_attribute("cy")
    page.get_by_label("Position of the query").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#query-at").text_content() == "65"
    assert wheel.locator(".query").first.get_attribute("cx") != before[0]
    assert dot.get_attribute("cy") == where  # the distance is the same, and so is the bound
    page.keyboard.press("Home")
    assert page.locator("#apart").text_content() == "0"  # no key is in front of the text
    assert float(wheel.locator(".bound").text_content()) == 32.5
    leave(opened, file)


def test_marks_are_on_the_curves(browser: Any, file: Path) -> None:
    opened = visit(browser, file)
    page = opened.page
    page.get_by_label("Distance to the key").fill("300")
    marks = page.locator("#decay-marks circle").all()
    assert len(marks) == 3
    for place, mark in enumerate(marks):
        own = f"#explorer path[style*='stroke: var(--curve-{place})']"
        drawn = [path.get_attribute("d") for path in page.locator(own).all()]
        points = np.array(re.findall(r"([\d.]+) ([\d.]+)", max(drawn, key=len)), float)
        where = np.array([float(mark.get_attribute(name)) for name in ("cx", "cy")])
        moves = np.diff(points, axis=0).any(1)  # rounded points may be the same
        begin, step = points[:-1][moves], np.diff(points, axis=0)[moves]
        along = ((where - begin) * step).sum(1) / (step**2).sum(1)
        nearest = begin + np.clip(along, 0, 1)[:, None] * step
        # Matplotlib leaves out points that move a line by less than a ninth of a pixel, and the
        # page rounds to a tenth.
        assert np.hypot(*(nearest - where).T).min() < 0.2
    leave(opened, file)


def test_tables_are_sorted_by_their_headings(browser: Any, file: Path) -> None:
    opened = visit(browser, file)
    page = opened.page
    page.locator("#scale").get_by_role("button", name="holds up to").press("Enter")
    heading = page.locator("#scale th", has_text="holds up to")
    assert heading.get_attribute("aria-sort") == "ascending"
    held = texts(page, 9)
    numbers = [
        int(text.replace(",", "")) for text in held if text[0].isdigit() and "or" not in text
    ]
    assert numbers == sorted(numbers)
    assert len(numbers) > 5
    assert "or more" in held[-1] or held[-1] == "all"
    page.locator("#scale").get_by_role("button", name="holds up to").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert texts(page, 9)[-len(numbers) :] == [f"{n:,}" for n in sorted(numbers, reverse=True)]
    page.locator("#scale").get_by_role("button", name="method").click()
    assert heading.get_attribute("aria-sort") is None
    assert texts(page, 1) == sorted(texts(page, 1))
    leave(opened, file)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(browser: Any, file: Path, scheme: str) -> None:
    opened = visit(browser, file, color_scheme=scheme)
    for details in opened.page.locator("summary").all():
        details.click()
    options = {"resultTypes": ["violations"]}
    if scheme == "dark":  # which changes colours alone
        options["runOnly"] = ["color-contrast"]
    found = Axe().run(opened.page, options=options).response["violations"]
    assert [(each["id"], each["impact"], each["nodes"][0]["html"]) for each in found] == []
    leave(opened, file)


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_window(browser: Any, file: Path, width: int) -> None:
    opened = visit(browser, file, viewport={"width": width, "height": 800})
    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    leave(opened, file)


def test_page_says_everything_without_scripts(browser: Any, file: Path) -> None:
    opened = visit(browser, file, java_script_enabled=False)
    page = opened.page
    assert not page.locator("#controls").is_visible()
    assert page.locator("button").count() == 0
    assert page.locator(".wheel .ring").count() == 3 * 32
    assert "Query at position 64" in page.locator("[role=status]").text_content()
    assert len(texts(page, 0)) == 9 + 9
    page.locator("summary").click()
    assert page.locator("details tbody tr").count() == 32 + 64 + 64
    page.get_by_role("link", name="R012").click()
    assert page.url.endswith("#r012")
    leave(opened, file)


def test_names_of_a_file_run_no_script(browser: Any, tmp_path: Path) -> None:
    name = (
        "</title></script><script>console.log('run')</script><img src=x onerror=console.log('run')>"
    )
    file = tmp_path / "report.html"
    file.write_text(ropecli.report({"model_type": name, "hidden_size": 64}).html())
    opened = visit(browser, file)
    assert name in opened.page.locator("h1").text_content()
    leave(opened, file)
