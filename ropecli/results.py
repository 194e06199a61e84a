"""Base classes of results, which print themselves and draw: the library's only way to `render`.

`render` is a layer above, and knows every result. A result names its view, a value in `render`,
and these classes load it on demand.
"""

from __future__ import annotations

import contextlib
import html
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ropecli.errors import RopecliError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414  # exported: the only import of them
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414
    from numpy.typing import NDArray
else:  # annotations do not load Matplotlib
    Axes = Figure = Any


class Result:
    """A result that `print` and notebooks show as a short page.

    Its view is `VIEW` of the module of `render` with the name of the result's own module, or the
    one that the class names: `class Rule(Result, view="lint.RULE")`.
    """

    view: ClassVar[str]  #: Module of `render`, and name of a view in it if it has several.

    def __init_subclass__(cls, *, view: str | None = None) -> None:
        super().__init_subclass__()
        cls.view = view or cls.__module__.rpartition(".")[2]
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]  # before a dataclass has its own

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def __str__(self) -> str:
        from ropecli import render

        return render.text(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Show the page in IPython, as `print` does."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def table(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns of `to_csv` by name, arrays of equal length."""
        from ropecli import render

        return render.arrays(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the columns of `to_csv` as a stream of Arrow: `polars.DataFrame(result)`.

        Args:
            requested_schema: As in Arrow's PyCapsule interface.

        Raises:
            RopecliError: pyarrow is missing.
        """
        from ropecli import render

        return render.arrow_stream(self, requested_schema)

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
            ax: Axes of a grid, as from `plt.subplots`, that the picture replaces; their figure is
                returned. By default, a new figure.

        Raises:
            ArgumentError: Axes that are not in a grid.
        """
        return self._draw(ax)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `to_csv`, so that `pandas.DataFrame(result)` has its columns."""
        columns = self.table()
        for cells in zip(*columns.values(), strict=True):
            yield dict(zip(columns, cells, strict=True))

    def _repr_html_(self) -> str:
        from ropecli import render

        with contextlib.suppress(RopecliError):  # of a result without anything to draw
            return render.picture_html(self.figure()) + super()._repr_html_()
        return super()._repr_html_()

    def _draw(self, ax: Axes | None, **options: Any) -> Figure:
        from ropecli import render

        return render.draw(self, ax, **options)


class HtmlResult(Result):
    """A result with a page of HTML."""

    def html(self, *, docs: str | None = None) -> str:
        """Return a page that needs no network, no other file, and no scripts.

        Args:
            docs: URL of ropecli's documentation, for links to it.

        Raises:
            ArgumentError: A URL that is not http or https.
        """
        from ropecli import render

        return render.html(self, docs=docs)


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultGroup(Drawable):
    """Results that are shown together, by the view of the first one."""

    results: tuple[Any, ...]  #: Of one class, at least one.
