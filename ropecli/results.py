"""Results that print themselves, serve notebooks and draw: the library's one door to `render`.

`render` knows every result, and is above all of them. A result names the module of `render` that
shows it, its view, and only these classes load it, when they are asked to.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414  # exported: the only import of it


class Result:
    """A result that `print` shows as a short page, and a notebook too.

    Its view is the module of `render` with the name of the result's own module, or the one that
    the class names: `class Compared(Result, view="encode_check")`.
    """

    view: ClassVar[str]  #: Name of a module of `render`.

    def __init_subclass__(cls, *, view: str | None = None) -> None:
        super().__init_subclass__()
        cls.view = view or cls.__module__.rpartition(".")[2]

    def __str__(self) -> str:
        from ropecli import render

        return render.text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class Drawable(Result):
    """A result with a picture."""

    def figure(self) -> Figure:
        """Return the picture that `-o FILE.png` writes."""
        from ropecli import render

        return render.draw(self)
