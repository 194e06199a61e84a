"""Results as text, tables, plots, figures and JSON: one view a command.

A view is a module with `page`, and as far as its result has them `table`, `figure` and `as_json`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from ropecli.render.console import Screen
    from ropecli.results import Drawable, Result

    Table = Mapping[str, Any]  #: Lists or arrays of equal length by name.


class View(Protocol):
    """Functions of a view; options are those that a command hands to `output.show`."""

    def page(self, result: Any, screen: Screen, **options: Any) -> list[str]:
        """Return the lines to print."""

    def table(self, result: Any) -> Table:
        """Return the columns of the .csv file."""

    def figure(self, result: Any, **options: Any) -> Figure:
        """Return the picture."""


def view_of(result: Result) -> View:
    """Return the module that shows a result."""
    return cast("View", import_module(f"ropecli.render.{result.view}"))


def text(result: Result) -> str:
    """Return the page of a result in its short form."""
    from ropecli.render.console import Screen

    return "\n".join(view_of(result).page(result, Screen(brief=True))).rstrip()


def draw(result: Drawable) -> Figure:
    """Return the picture of a result."""
    return view_of(result).figure(result)


def as_json(result: Result, **options: Any) -> Any:
    """Return the `result` of `--json`: what the view makes of it, or else its fields."""
    convert = getattr(view_of(result), "as_json", None)
    return result if convert is None else convert(result, **options)
