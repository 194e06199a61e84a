"""Formulas as MathML, written at build time: pages need neither a script nor a network for them."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def setup(app: Sphinx) -> None:
    """Offer MathML to `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def mathml(tex: str, *, block: bool = False) -> str:
    """Return a formula as MathML, spaced as TeX spaces it.

    Docutils does not say which of two bars opens and which closes, and browsers give the invisible
    operator between a function and its argument no room.
    """
    formula = tex2mathml(tex, as_block=block)
    formula = formula.replace("<mo>&ApplyFunction;", '<mo rspace="0.1667em">&ApplyFunction;')
    bars = itertools.cycle(("prefix", "postfix"))
    grows = True  # only after \left

    def side(bar: re.Match[str]) -> str:
        nonlocal grows
        form = next(bars)
        grows = not bar["attributes"] if form == "prefix" else grows
        return f'<mo form="{form}" stretchy="{str(grows).lower()}">{bar["bar"]}</mo>'

    return re.sub(r"<mo(?P<attributes>[^>]*)>(?P<bar>[|‖])</mo>", side, formula)


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode
