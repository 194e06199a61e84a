"""The page of `report` in HTML: whole, self-contained, safe, and the same each time."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from models.configs import BLOOM, LLAMA_31, TINY, TINY_GEMMA

import ropecli

#: Elements without an end.
VOID = {"meta", "input", "br", "link", "img", "hr"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> {{ 7 * 7 }} $x$ &amp; \x1b[31m"


class Page(HTMLParser):
    """A page that was read, with all that it would load."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [str(attrs[name]) for _, attrs in self.found if name in attrs]

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.found)


def check_page(content: str) -> Page:
    """Assert what holds of every page, and return it."""
    assert content.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert len(content.encode()) < 1_000_000
    page = Page(content)
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    # Whatever loads something: links do not, until a reader follows them.
    loading = [*page.all("src"), *page.all("srcset"), *page.all("data"), *page.all("xlink:href")]
    loading += [str(attrs.get("href")) for tag, attrs in page.found if tag in {"link", "use"}]
    loading += re.findall(r"url\(([^)]*)\)|@import", content)
    assert {each for each in loading if not each.startswith("#")} == set()
    assert {each.removeprefix("#") for each in loading} <= set(ids)
    named = [each for tag in ("for", "aria-labelledby") for each in page.all(tag)]
    inner = [each[1:] for each in page.all("href") if each.startswith("#")]
    assert {word for each in named for word in each.split()} | set(inner) <= set(ids)
    assert (
        page.count("script")
        == page.count("style")
        == page.count("title")
        - page.count("svg")
        + (page.count("figure") and len([c for c in page.all("class") if c == "wheel"]))
    )
    assert not any(name.startswith("on") for _, attrs in page.found for name in attrs)
    return page


def test_names_of_a_file_are_text() -> None:
    content = ropecli.report(BLOOM | {"model_type": HOSTILE}).html()
    page = check_page(content)
    shown = HOSTILE.replace("\x1b", r"\x1b")
    assert any(shown in text for text in page.texts)
    assert page.count("img") == 0
    assert "alert(1)</script>" not in content


def test_page_without_a_rotation_says_why() -> None:
    page = check_page(ropecli.report(BLOOM).html())
    assert any("no rotary position embedding found" in text for text in page.texts)
    assert page.count("svg") == page.count("input") == 0
    refused = ropecli.report(TINY | {"rope_scaling": {"rope_type": "yarn", "factor": -2.0}})
    page = check_page(refused.html())
    assert any("factor must be finite and above 0, got -2" in text for text in page.texts)


def test_findings_link_to_the_rules_of_the_documentation() -> None:
    made = ropecli.report(BLOOM, TINY | {"rope_scaling": {"rope_type": "yarn", "factor": -2.0}})
    rules = {each.rule.lower() for each in made.models[1].findings}
    assert rules
    page = check_page(made.html())
    assert {f"#{rule}" for rule in rules} <= set(page.all("href"))  # on the page itself
    assert rules <= set(page.all("id"))
    page = check_page(made.html(docs="https://ropecli.example/docs/"))
    linked = {f"https://ropecli.example/docs/lint.html#{rule}" for rule in rules}
    assert linked <= set(page.all("href"))


@pytest.mark.parametrize("docs", ["javascript:alert(1)", "docs", "file:///etc", ""])
def test_addresses_of_other_kinds_are_refused(docs: str) -> None:
    with pytest.raises(ropecli.ArgumentError, match="docs must begin with https:// or http://"):
        ropecli.report(BLOOM).html(docs=docs)


@pytest.mark.slow
def test_page_has_all_sections_and_their_tables() -> None:
    content = ropecli.report(TINY).html()
    page = check_page(content)
    sections = {"models", "findings", "explorer", "coverage", "base-bound", "precision", "scale"}
    assert sections <= set(page.all("id"))
    assert len([c for c in page.all("class") if c == "ring"]) == 4
    text = " ".join(" ".join(page.texts).split())
    for words in ("never complete a turn", "bf16-positions", "ntk_by_parts", "Query at position"):
        assert words in text
    assert "0 200 400 600 800 1000 relative distance 0.0" in text  # labels of a figure
    for name, most in {"base-bound": 300, "precision": 150}.items():  # numbers of a long curve
        section = content.split(f'<section id="{name}"')[1].split("</section>")[0]
        assert max(len(path.split()) for path in re.findall(r' d="([^"]*)"', section)) < most
    groups = [attributes for tag, attributes in page.found if tag == "g"]
    assert groups
    assert all(groups)  # groups that say nothing are left out, and no others


@pytest.mark.slow
def test_real_models_side_by_side() -> None:
    llama = LLAMA_31 | {"max_position_embeddings": 16_384}  # of which less is computed
    made = ropecli.report(llama, TINY_GEMMA | {"model_type": HOSTILE})
    page = check_page(made.html())
    theta = [float(each) for each in page.all("data-theta")]
    assert theta[:32] == [float(each) for each in made.encodings[0].rope.inv_freq[::2]]
    assert page.count("svg") == 3 + 5
    assert len([each for each in page.all("class") if each == "wheel"]) == 3
    assert len(page.all("data-x")) == 1
