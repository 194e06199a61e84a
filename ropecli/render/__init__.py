"""Results as text, tables, plots, figures and JSON: one view a command.

A view is a module with `page(result, screen)`, the lines to print, of which the first paragraph is
the answer, and as far as its result has them `as_json(result)`, the `result` of the document,
`table(result)`, the columns of the .csv file, `figure(result)` and `html(result, docs=...)`.
Options that a command hands to `output.show` are further arguments. `several.py` makes these
functions of the view of one encoding.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ropecli.errors import RopecliError
from ropecli.results import HtmlResult, Result

Table = Mapping[str, Any]  #: Lists or arrays of equal length by name.

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

SCALARS = (bool, int, float, str, Path, type(None))  #: What a cell of a table may be.


def view_of(result: Result) -> Any:
    """Return the module that shows a result."""
    return import_module(f"ropecli.render.{result.view}")


def fields(source: object, *names: str) -> dict[str, Any]:
    """Return those attributes by name."""
    return {name: getattr(source, name) for name in names}


def text(result: Result) -> str:
    """Return the page of a result in its short form."""
    from ropecli.render.console import Screen

    shown = result._shown()
    return "\n".join(view_of(shown).page(shown, Screen(brief=True))).rstrip()


def draw(result: Result, ax: Axes | None = None, **options: Any) -> Figure:
    """Return the picture of a result, in the place of axes if there are some."""
    from ropecli.render.figure import in_place_of, with_style

    with in_place_of(ax) as whole:
        picture: Figure = with_style(view_of(result).figure)(result, **options)
    return whole or picture


def columns(result: Result, **options: Any) -> Table:
    """Return the columns of a result: those of its view, or else a row for each of its records.

    The records are the objects of its first tuple of objects, or the result itself.
    """
    shown = result._shown()
    make = getattr(view_of(shown), "table", None)
    if make is not None:
        found: Table = make(shown, **options)
        return found
    lists = (getattr(result, each.name) for each in dataclasses.fields(cast("Any", result)))
    filled = (each for each in lists if isinstance(each, tuple) and each)
    records = next((each for each in filled if dataclasses.is_dataclass(each[0])), (result,))
    names = [each.name for each in dataclasses.fields(records[0])]
    rows = {name: [getattr(record, name) for record in records] for name in names}
    return {
        name: [str(cell) if isinstance(cell, Path) else cell for cell in cells]
        for name, cells in rows.items()
        if all(isinstance(cell, SCALARS) for cell in cells)
    }


def arrays(result: Result) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a result as arrays; of objects where a cell is None."""
    import numpy as np

    return {name: np.asarray(column) for name, column in columns(result).items()}


def arrow_stream(result: Result, requested_schema: object | None) -> object:
    """Return the columns of a result as pyarrow's capsule of a stream; None in a cell is null."""
    try:
        import pyarrow as pa
    except ImportError:
        raise RopecliError(
            f"{type(result).__name__} as Arrow needs pyarrow: pip install 'ropecli[parquet]'"
        ) from None
    return pa.table({**columns(result)}).__arrow_c_stream__(requested_schema)


def write_csv(result: Result, path: str | os.PathLike[str], *, force: bool) -> None:
    """Write the columns of a result to a file."""
    from ropecli.files.atomic import replacing
    from ropecli.render import save

    with replacing(Path(path), force=force) as stream:
        stream.write(save.csv(columns(result)).encode())


def html(result: HtmlResult, *, docs: str | None = None) -> str:
    """Return the page of a result in HTML."""
    page: str = view_of(result).html(result, docs=docs)
    return page


def as_json(result: Result, **options: Any) -> Any:
    """Return the `result` of `--json`: what the view makes of it, or else its fields."""
    convert = getattr(view_of(result), "as_json", None)
    return result if convert is None else convert(result, **options)
