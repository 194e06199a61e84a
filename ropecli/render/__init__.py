"""Results as text, tables, plots, figures and JSON: one view a class of results.

A view is the value `VIEW` of the module that a result names, or, of a module with several, the one
that it names after a point: `class Rule(Result, view="lint.RULE")`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.errors import RopecliError
from ropecli.results import HtmlResult, Result, ResultGroup

Table = Mapping[str, Any]  #: Lists or arrays of equal length by name.
Field = str | tuple[str, Any]  #: An attribute, as `fields` takes it.
Fields = Sequence[Field]

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ropecli.render.console import Screen as Screen

SCALARS = (bool, int, float, str, Path, type(None))  #: What a cell of a table may be.


@dataclass(frozen=True, kw_only=True)
class View:
    """The view of a result. Options that a command hands over are further arguments."""

    page: Callable[..., list[str]]  #: Lines for a screen; the first paragraph is the answer.
    document: Fields | Callable[..., Any] = ()  #: The `result` of --json: by default, all fields.
    table: Fields | Callable[..., Table] = ()  #: Columns: by default, those of `_records`.
    figure: Callable[..., Figure] | None = None
    html: Callable[..., str] | None = None
    group: View | None = None  #: Of several results, which are then shown together.

    def as_json(self, result: Any, **options: Any) -> Any:
        """Return the `result` of the document."""
        if callable(self.document):
            return self.document(result, **options)
        return fields(result, *self.document) if self.document else result

    def columns(self, result: Any, **options: Any) -> Table:
        """Return the columns of the .csv file."""
        if callable(self.table):
            return self.table(result, **options)
        return fields(result, *self.table) if self.table else _records(result)


def view_of(result: Result) -> View:
    """Return the view of a result, or of a group of results."""
    if isinstance(result, ResultGroup):
        group = view_of(result.results[0]).group
        assert group is not None
        return group
    path, _, name = result.view.partition(".")
    module = import_module(f"ropecli.render.{path}")
    view: View = vars(module)[name or "VIEW"]
    return view


def fields(source: object, *names: Field) -> dict[str, Any]:
    """Return attributes of an object by name.

    "rope.base" is `base`, or None where there is no `rope`; "valid as allowed" has another name.
    A pair is a name and a function of the object, or else an attribute, or a tuple of such, and
    the fields that are shown of it.
    """
    document: dict[str, Any] = {}
    for key in names:
        name, make = (key, None) if isinstance(key, str) else key
        path, _, other = name.partition(" as ")
        value = make(source) if callable(make) else _attribute(source, path)
        if isinstance(make, tuple) and value is not None:
            several = isinstance(value, tuple)
            value = [fields(x, *make) for x in value] if several else fields(value, *make)
        document[other or path.rpartition(".")[2]] = value
    return document


def _attribute(source: Any, path: str) -> Any:
    for name in path.split("."):
        source = None if source is None else getattr(source, name)
    return source


def text(result: Result) -> str:
    """Return the page of a result in its short form."""
    from ropecli.render.console import Screen

    return "\n".join(view_of(result).page(result, Screen(brief=True))).rstrip()


def draw(result: Result, ax: Axes | None = None, **options: Any) -> Figure:
    """Return the picture of a result, in the place of axes if there are some."""
    from ropecli.render.figure import in_place_of, with_style

    make = view_of(result).figure
    assert make is not None
    with in_place_of(ax) as figure:
        picture: Figure = with_style(make)(result, **options)
    return figure or picture


def picture_html(picture: Figure) -> str:
    """Return a picture for a notebook, as an image that holds its pixels."""
    from base64 import b64encode

    from ropecli.render.figure import figure_bytes

    content = b64encode(figure_bytes(picture, suffix=".png", command="")).decode()
    width = round(picture.get_size_inches()[0] * 96)
    return f'<img width="{width}" src="data:image/png;base64,{content}">'


def columns(result: Result, **options: Any) -> Table:
    """Return the columns of the .csv file of a result."""
    return view_of(result).columns(result, **options)


def _records(result: Any) -> Table:
    """Return a row for each object of the first tuple of objects of a result, or for itself."""
    lists = (getattr(result, field.name) for field in dataclasses.fields(result))
    filled = (value for value in lists if isinstance(value, tuple) and value)
    records = next((row for row in filled if dataclasses.is_dataclass(row[0])), (result,))
    names = [field.name for field in dataclasses.fields(records[0])]
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
    make = view_of(result).html
    assert make is not None
    return make(result, docs=docs)


def as_json(result: Result, **options: Any) -> Any:
    """Return the `result` of the document."""
    return view_of(result).as_json(result, **options)
