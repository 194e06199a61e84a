"""Settings of the pages: sphinx-build -W -n -b html docs docs/_build/html."""

from __future__ import annotations

import sys
import typing
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sphinx.util.inspect
import sphinx.util.typing

from ropecli import __version__
from ropecli.cli.app import build

sys.path.insert(0, str(Path(__file__).parent))  # where mathml and gallery are

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ropecli"
author = copyright = "the ropecli authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "api.md"]  # api.md is the first part of reference.rst
html_theme = "furo"
html_title = f"ropecli {__version__}"
html_math_renderer = "mathml"
# A reader's machine may have no font for mathematics, and brackets then do not grow.
html_static_path = ["_static", str(files("ziamath.fonts") / "STIXTwoMath-Regular.ttf")]
html_css_files = ["pages.css"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": ".py",
    "ignore_pattern": r"rotate_minilm|learned_distance",  # they need the weights of a model
    "within_subsection_order": "gallery.Order",
    "image_scrapers": ("gallery.pictures",),
    "reset_modules": (),
    "ignore_repr_types": r"matplotlib",
    "first_notebook_cell": "%matplotlib inline",
    "min_reported_time": float("inf"),
    "write_computation_times": False,
    "show_signature": False,
}
# sphinx-build -b man docs docs/_build/man: ropecli(1), and ropecli-check(1) as of git's commands.
man_pages = [("commands/index", "ropecli", "positional encodings of transformers", author, 1)] + [
    (f"commands/{name}", f"ropecli-{name}", each.short_help, author, 1)
    for name, each in build(to_list=True).commands.items()
]
smartquotes = False  # "--dim" in a help text is two hyphens

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    # <gh:OWNER/REPOSITORY#NUMBER>: an issue or a pull request, GitHub knows which.
    "gh": {
        "url": "https://github.com/{{path}}/issues/{{fragment}}",
        "title": "{{path}}#{{fragment}}",
    },
}

autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 90  # longer ones have a parameter on each line
# Types that have no page here: other projects', and names for a callable's signature.
nitpick_ignore_regex = [
    ("py:(class|obj|data)", r"(np|numpy|os|pathlib|NDArray|ArrayLike)\b.*"),
    (
        "py:class",
        r"Array|Decays|Direction|FeatureMap|Layout|ModelCall|Pairs|Path|Progress|Rotate|Vectors|tuple\[\w+",
    ),
    ("py:class", r"(collections\.abc\.)?Mapping.*"),
    ("py:class", r"(ropecli\.rotary\.\w+\.)?(Axes|Figure|Formula|Placement|Proposal|Start|Table)"),
    ("py:(class|exc)", r"(ropecli\.checks\.[\w.]+\.)?(CallError|CodeVerdict|Convention|Parting)"),
]


def _leave_unevaluated(*_: Any, **__: Any) -> dict[str, Any]:
    """Show types as the source writes them: NDArray[Any] is ndarray[tuple[Any, ...], ...]."""
    raise NameError


_names = {**vars(typing), "get_type_hints": _leave_unevaluated}
sphinx.util.inspect.typing = SimpleNamespace(**_names)  # type: ignore[assignment]
sphinx.util.typing.typing = SimpleNamespace(**_names)  # type: ignore[assignment]


def setup(app: Sphinx) -> None:
    """Have docstrings read as they are meant, before napoleon and after."""
    app.connect("autodoc-process-docstring", _lengths, priority=499)
    app.connect("autodoc-process-docstring", _whole_sentences, priority=501)


_KEPT: dict[str, list[str]] = {}


def _lengths(_app: Sphinx, what: str, name: str, _it: Any, _how: Any, lines: list[str]) -> None:
    lines[:] = [line.replace("|", "\\|") for line in lines]  # |x| is a length, no substitution
    if what in {"attribute", "property"}:
        _KEPT[name] = lines.copy()


def _whole_sentences(
    _app: Sphinx, _what: str, name: str, _it: Any, _how: Any, lines: list[str]
) -> None:
    if name in _KEPT:  # napoleon takes what stands before a colon for its type
        lines[:] = _KEPT[name]
