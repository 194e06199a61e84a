"""Results that print themselves, serve notebooks and draw: the library's one door to `render`.

`render` knows every result, and is above all of them. A result names the module of `render` that
shows it, its view, and only these classes load it, when they are asked to.
"""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414  # exported: the only import of them
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414
    from numpy.typing import NDArray
else:  # whoever names these types does not load Matplotlib
    Axes = Figure = Any


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

    def _shown(self) -> Result:
        """Return what the view shows: the result itself, or a group of it alone."""
        return self

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def table(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns of `to_csv` by name, arrays of equal length."""
        from ropecli import render

        return render.arrays(self)

    def to_csv(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the numbers to a file, as `-o FILE.csv` does where a command has it.

        Args:
            path: The file.
            force: Replace an existing file.

        Raises:
            FileError: The file exists, or can't be written.
        """
        from ropecli import render

        render.write_csv(self, path, force=force)


class Drawable(Result):
    """A result with a picture."""

    def figure(self, *, ax: Axes | None = None) -> Figure:
        """Return the picture that `-o FILE.png` writes.

        Args:
            ax: Axes of a grid, such as `plt.subplots` makes, whose place the picture takes; the
                figure that they are in is returned. By default a figure of its own.

        Raises:
            ArgumentError: Axes that are not in a grid.
        """
        from ropecli import render

        return render.draw(self, ax)


class HtmlResult(Result):
    """A result with a page of HTML."""

    def html(self, *, docs: str | None = None) -> str:
        """Return a page that needs nothing beside it: no network, no file, and no scripts.

        Args:
            docs: Address of ropecli's documentation, to which the page has links then.

        Raises:
            ArgumentError: An address that is none of http or https.
        """
        from ropecli import render

        return render.html(self, docs=docs)
