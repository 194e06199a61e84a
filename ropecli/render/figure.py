"""Style, metadata and reproducible bytes of all Matplotlib figures."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from ropecli._version import __version__
from ropecli.errors import ArgumentError
from ropecli.numbers import positive
from ropecli.regular import regular_file

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis, XAxis
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import LayoutEngine
    from matplotlib.legend import Legend
    from matplotlib.text import Text

    from ropecli.render.curves import Curve

# Matplotlib warns on stderr where it can't write its folder; ours may be writable.
os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("ropecli") / "matplotlib"))

#: Colours that colour-blind readers tell apart (Okabe and Ito), and line styles. There are 7 and 6,
#: without a common divisor: 42 curves go by before two look the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
NARROW = 5.0  #: Inches below which a figure is one column of a paper.
SIZES = (8, 10)  #: Points of the text of narrow figures, and of others.
ACROSS = 4  #: Most panels side by side.
MOST_POINTS = 4096  #: Distances up to which each one is plotted.
BANDS = 256  #: Groups of neighbours beyond that.
DISTANCE = "relative distance"
BAND = "range of neighbours, the line is their mean"
PAGE = 9.0  #: Inches that a page of a paper is high.
ROW = 1.1  #: Least inches of a row of panels, if they need more than a page.
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.dpi": 150,
    "figure.titlesize": "medium",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "path.simplify": True,
    "savefig.dpi": 150,
}
#: What no style changes: fonts as TrueType, since publishers refuse Type 3, text that can be
#: searched and read aloud, and the same bytes each time.
FIXED: dict[Any, Any] = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "ropecli",
    "text.usetex": False,
}
WORD_ENDS = re.compile(r"(\s+)|(?<=[^\W\d]{2}[-/])(?=\w)")  #: No sign of a number ends a word.
_PLACE: ContextVar[Any] = ContextVar("place", default=None)  #: A part of another figure.
LARGEST_IMAGE = 10**8  #: Pixels of a .png.


Draw = TypeVar("Draw", bound=Callable[..., Any])


def with_style(draw: Draw) -> Draw:
    """Let a function draw in the style of all figures, and fit its texts to the width."""

    @functools.wraps(draw)
    def styled(*args: Any, **options: Any) -> Any:
        with style():
            picture = draw(*args, **options)
            if not picture.legends and (bands := _bands(picture)):
                legend_below(picture, bands)
            _LOOK.get().change(picture)
            _fit(picture)
        return picture

    return styled  # type: ignore[return-value]


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Set Matplotlib's own defaults, ours, and then the style that was asked for.

    What a matplotlibrc of the user sets is left out: a figure looks the same everywhere.
    """
    import matplotlib as mpl
    from matplotlib.style import use

    with mpl.rc_context(), warnings.catch_warnings():
        # A file's name may have letters that the font lacks; they become boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE | {"font.size": SIZES[bool(_width(NARROW) >= NARROW)]})
        chosen = _LOOK.get().style
        if chosen is not None:
            warnings.filterwarnings("ignore", message="Style includes a parameter")
            use(_known_style(chosen))
        mpl.rcParams.update(FIXED)
        yield


def _known_style(name: str) -> Any:
    """Return a style that Matplotlib's `use` takes: a name, or what a regular file sets.

    Left to itself it fetches what an address names, imports packages, and waits for pipes.
    """
    from matplotlib import rc_params_from_file
    from matplotlib.style import available

    if name in (*available, "default"):
        return name
    path = Path(name)
    if not path.exists():
        names = ", ".join(style_name for style_name in available if not style_name.startswith("_"))
        raise ArgumentError(f"style must be a .mplstyle file or one of {names}, got {name!r}")
    with regular_file(path, "a .mplstyle file"), _capture_log("matplotlib") as said:
        try:
            settings = rc_params_from_file(path, fail_on_error=True, use_default_template=False)
        except (OSError, ValueError) as error:
            said.append(str(error))
    if said:
        problem = " ".join(said[0].partition("\nYou probably")[0].split())
        raise ArgumentError(f"{name} is no style of Matplotlib: {problem}")
    return settings


@contextlib.contextmanager
def _capture_log(name: str) -> Iterator[list[str]]:
    """Yield a list that gets the messages of a library, which are not printed."""
    said: list[str] = []
    logger = logging.getLogger(name)
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    printed, logger.propagate = logger.propagate, False
    try:
        yield said
    finally:
        logger.propagate = printed
        logger.removeHandler(handler)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Look of a figure where it differs from the default."""

    width: float | None = None  #: Inches.
    height: float | None = None  #: Inches.
    dpi: float | None = None  #: Pixels per inch of a .png.
    log_x: bool = False  #: Logarithmic horizontal axes.
    title: str | None = None  #: In the place of the figure's own; none if empty.
    style: str | None = None  #: A style of Matplotlib, or a .mplstyle file.

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name, most in (("width", 100), ("height", 100), ("dpi", 10_000)):
            value = getattr(self, name)
            if value is not None and not 0 < positive(name, value) <= most:
                raise ArgumentError(f"{name} must be above 0 and at most {most:,}, got {value:g}")

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that differ from the default, by name."""
        return {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        }

    @contextlib.contextmanager
    def apply(self) -> Iterator[None]:
        """Let figures be drawn so."""
        token = _LOOK.set(self)
        try:
            yield
        finally:
            _LOOK.reset(token)

    def change(self, picture: Figure) -> None:
        """Change the scales and the title of a figure."""
        if self.log_x:
            _set_log_x(picture)
        if self.title is not None:
            _set_title(picture, self.title)


_LOOK: ContextVar[Look] = ContextVar("look", default=Look())  # noqa: B039  # frozen


def _set_log_x(picture: Figure) -> None:
    curves = [axes for axes in picture.axes if axes.get_lines() and not axes.images]
    if not curves:
        raise ArgumentError("log x requires a line plot")
    for axes in curves:
        x = np.concatenate([np.asarray(line.get_xdata(), float) for line in axes.get_lines()])
        shown = x[(x > 0) & np.isfinite(x)]
        if not len(shown):
            raise ArgumentError("log x needs a value above 0 on the axis, got none")
        last = axes.get_xlim()[1]
        axes.set_xscale("log")
        axes.set_xlim(shown.min(), last)


def _set_title(picture: Figure, title: str) -> None:
    """Set the title of the figure, which takes the place of that of its only panel."""
    panels = [axes for axes in picture.axes if axes.get_title()]
    if len(panels) == 1 and not picture.get_suptitle():
        panels[0].set_title(printable(title), parse_math=False)
        return
    picture.suptitle(printable(title), parse_math=False)


@contextlib.contextmanager
def in_place_of(ax: Axes | None) -> Iterator[Figure | None]:
    """Let the next blank figure be the place of axes in their own figure, which is yielded."""
    if ax is None:
        yield None
        return
    cell, part, figure = ax.get_subplotspec(), ax.get_figure(), ax.get_figure(root=True)
    if cell is None or part is None or figure is None:
        raise ArgumentError("ax must be axes of a grid, such as plt.subplots makes")
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")  # else labels of neighbours overlap
    ax.remove()
    token = _PLACE.set(part.add_subfigure(cell))
    try:
        yield figure
    finally:
        _PLACE.reset(token)


def _width(own: float) -> float:
    """Return the inches that a figure may be wide, which are its own without another wish."""
    place = _PLACE.get()
    return _LOOK.get().width or (own if place is None else place.bbox.width / place.dpi)


def blank_figure(width: float, height: float, *, rows: int = 1) -> Figure:
    """Return an empty figure of that many inches, which arranges its rows of panels itself.

    At another width its height follows, but less: labels and legends need their lines. Those of
    legends and of the title are added to the height, up to a page.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if _PLACE.get() is not None:
        return _PLACE.get()  # type: ignore[no-any-return]
    look, own = _LOOK.get(), _width(width)
    most = max(PAGE, ROW * rows)
    size = (own, look.height or min(height * math.sqrt(own / width), most))
    pixels = size[0] * size[1] * (look.dpi or STYLE["savefig.dpi"]) ** 2
    if pixels > LARGEST_IMAGE:
        raise ArgumentError(
            f"a figure must have at most {LARGEST_IMAGE:,} pixels, got {pixels:,.0f}"
        )
    figure = Figure(figsize=size, layout=_layout())
    FigureCanvasAgg(figure)  # else each text that is measured begins an image of its own
    return figure


def _layout() -> LayoutEngine:
    """Return Matplotlib's constrained layout, rounded: its last digits differ from run to run."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.transforms import Bbox

    class RoundedLayout(ConstrainedLayoutEngine):
        is_final = False  #: Nothing has changed since it was computed.

        def execute(self, fig: Figure) -> Any:
            done = super().execute(fig)
            for axes in fig.axes:
                corners = axes.get_position(original=True).get_points().round(9)
                axes.set_position(Bbox(corners), which="original")
                axes.set_in_layout(True)  # a place that is set takes axes out of the layout
            return done

    return RoundedLayout(wspace=0.04)  # a number at the end of an axis is not the neighbour's


def count_across(count: int, panel: float) -> int:
    """Return how many panels of about that many inches are side by side."""
    most = min(count, ACROSS)
    return max(1, min(most, int(_width(panel * most) / (0.7 * panel))))


def columns_of_panels(
    labels: Sequence[str],
    heights: Sequence[float],
    *,
    width: float = 4.4,
    alone: float = 6.4,
    share: bool = True,
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure with a column of panels for each label, as many side by side as fit.

    Args:
        labels: Titles of the columns, each above its first panel.
        heights: Inches of each panel of a column.
        width: Inches of each column if there are several.
        alone: Inches of the only column.
        share: Let the panels of a row have the vertical axis of the first one.

    Returns:
        The figure, and its panels, (heights, labels).
    """
    count, rows, across = len(labels), len(heights), count_across(len(labels), width)
    blocks = -(-count // across)
    panel_width = width * across if across > 1 else alone
    picture = blank_figure(panel_width, blocks * sum(heights), rows=blocks * rows)
    grid = picture.add_gridspec(blocks * rows, across, height_ratios=[*heights] * blocks)
    panels = np.empty((rows, count), object)
    for column, row in np.ndindex(count, rows):
        place = grid[column // across * rows + row, column % across]
        panels[row, column] = picture.add_subplot(place, sharey=panels[row, 0] if share else None)
    for axes, label in zip(panels[0], labels, strict=True):
        axes.set_title(label, parse_math=False)
    return picture, panels


def label_rows(panels: NDArray[Any], *labels: str) -> None:
    """Label the vertical axes of columns of panels, and the numbers of the first in each row."""
    for row, label in zip(panels, labels, strict=True):
        for axes in row:
            if axes.get_subplotspec().is_first_col():
                axes.set_ylabel(label)
            elif axes.get_shared_y_axes().joined(axes, row[0]):
                axes.tick_params(labelleft=False)


def legend_below(picture: Figure, handles: Sequence[Artist] | None = None) -> None:
    """Add a legend below all panels, where it hides no curve, in as many columns as fit.

    By default it names all that has a label. Handles of one label have one entry, bands always have
    the last one, and `$` is a plain character.
    """
    handles = [*(_labelled_artists(picture) if handles is None else handles), *_bands(picture)]
    handles.sort(key=lambda each: each.get_label() == BAND)
    entries = {str(handle.get_label()): handle for handle in handles}
    legend = _legend(picture, [*entries.values()], 1)
    most = picture.bbox.width
    fitting = int(most / legend.get_window_extent().width)
    for columns in range(min(len(entries), fitting + 1), 0, -1):  # some may be narrower
        legend.remove()
        legend = _legend(picture, [*entries.values()], columns)
        if legend.get_window_extent().width <= most:
            return


def _legend(picture: Figure, handles: list[Artist], columns: int) -> Legend:
    legend = picture.legend(handles=handles, loc="outside lower center", ncols=columns)
    for text in legend.get_texts():
        text.set_parse_math(False)
        margins = 5 * float(text.get_fontsize()) * picture.dpi / 72  # with the line
        _wrap(text, picture.bbox.width - margins)
    return legend


def _labelled_artists(picture: Figure) -> list[Artist]:
    return [label for axes in picture.axes for label in axes.get_legend_handles_labels()[0]]


def _bands(picture: Figure) -> list[Artist]:
    return [artist for artist in _labelled_artists(picture) if artist.get_label() == BAND]


def _fit(picture: Figure) -> None:
    """Break titles and labels that are longer than their panels, and add height for their lines."""
    figure, outside = picture.get_figure(root=True), 0.0
    for text in picture.texts:
        _wrap(text, 0.95 * picture.bbox.width)
        outside += text.get_window_extent().height
    outside += sum(legend.get_window_extent().height for legend in picture.legends)
    _grow(picture, outside)
    engine: Any = figure.get_layout_engine()
    engine.execute(figure)
    lines: dict[float, float] = {}  # by the place of a row
    for axes in picture.axes:
        across, up = axes.bbox.size
        _thin_out(axes.xaxis)
        _wrap(axes.yaxis.label, up)
        added = _wrap(axes.title, across) + _wrap(axes.xaxis.label, across)
        place = round(axes.get_position().y0, 2)
        lines[place] = max(lines.get(place, 0.0), added)
    _grow(picture, sum(lines.values()))
    engine.is_final = picture is figure and not any(lines.values())


def _grow(picture: Figure, pixels: float) -> None:
    if _PLACE.get() is None and _LOOK.get().height is None:
        width, height = picture.get_size_inches()
        inches = math.ceil(10 * pixels / picture.dpi) / 10  # the same with another font engine
        grown = max(height, min(height + inches, PAGE), height / 2 + inches)
        picture.set_size_inches(width, grown)


def _thin_out(axis: XAxis) -> None:
    """Let a horizontal axis have fewer numbers, until they are apart."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    locator = axis.get_major_locator()
    if isinstance(locator, FixedLocator | MaxNLocator):
        for most in range(8, 0, -1):
            low, high = sorted(axis.get_view_interval())
            labels = axis.get_ticklabels()  # those that are visible, at the locator's places
            shown = [label for label in labels if low <= label.get_position()[0] <= high]
            boxes = [label.get_window_extent() for label in shown]
            ends = sorted((box.x0, box.x1 + box.height / 2) for box in boxes)
            if all(one[1] <= other[0] for one, other in pairwise(ends)):
                return
            locator.set_params(nbins=most)


def _break(line: str, characters: int) -> list[str]:
    """Break a line at spaces, and after a hyphen or a slash of a word; never inside a word."""
    lines = textwrap.TextWrapper(characters, break_long_words=False)
    lines.wordsep_re = WORD_ENDS
    return lines.wrap(line)


def _balance(line: str, characters: int) -> list[str]:
    """Break a line where it is too long, into lines of about one length."""
    parts = _break(line, characters)
    while characters > 1 and len(shorter := _break(line, characters - 1)) == len(parts):
        characters, parts = characters - 1, shorter
    return parts


def _wrap(text: Text, most: float) -> float:
    """Break a text into lines of at most that many pixels; return the height that they add.

    Where a word is longer, the letters are smaller.
    """
    if not text.get_text():
        return 0.0
    before, turned = text.get_window_extent(), text.get_rotation() == 90
    words, across = text.get_text(), before.height if turned else before.width
    characters = max(map(len, words.splitlines()))
    longest = max(map(len, _break(words, 1)), default=1)
    while across > most and characters > longest:
        fitting = min(characters - 1, int(characters * most / across) + 1)
        characters = max(longest, fitting)
        lines = [part for line in words.splitlines() for part in _balance(line, characters)]
        text.set_text("\n".join(lines))
        now = text.get_window_extent()
        across = now.height if turned else now.width
    if across > most:
        text.set_fontsize(max(1.0, float(text.get_fontsize()) * most / across))
    now = text.get_window_extent()
    return float(now.width - before.width if turned else now.height - before.height)


def legend_label(name: str) -> str:
    """Return a name that Matplotlib shows: it leaves out those that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def whole_ticks(axis: Axis) -> None:
    """Label an axis of indices at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(
        MaxNLocator("auto", integer=True, min_n_ticks=1, steps=[1, 2, 4, 5, 8, 10])
    )


def printable(text: str) -> str:
    """Return the text without characters that fonts or file formats cannot hold."""
    return "".join(c if c.isprintable() else "?" for c in text)


def curve_style(index: int) -> dict[str, Any]:
    """Return colour and line style of one of several curves."""
    return {"color": colour(index), "linestyle": LINES[index % len(LINES)]}


def colour(index: int) -> str:
    """Return the colour of one of several curves: ours, or those of the style."""
    if _LOOK.get().style is None:
        return COLOURS[index % len(COLOURS)]
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    colours = mpl.rcParams["axes.prop_cycle"].by_key().get("color", COLOURS)
    return to_hex(colours[index % len(colours)])


def ink() -> str:
    """Return the colour of text, and of lines that are not curves."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def plot_curve(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], **style: Any) -> None:
    """Plot a curve; of more waves than a page can show, the mean of neighbours and their range."""
    if not _is_dense(x):
        axes.plot(x, y, **style)
        return
    starts = np.arange(0, len(x), -(-len(x) // BANDS))
    scaled = axes.get_xscale() != "linear"
    if scaled or _LOOK.get().log_x:  # as wide on the axis as each other, from 1 on
        first = int(np.searchsorted(x, 1.0))
        edges = np.geomspace(max(x[first], 1.0), x[-1], BANDS, endpoint=False)
        starts = np.unique([*[0] * scaled, *np.searchsorted(x, edges)])
    counts = np.diff(np.append(starts, len(x)))
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    places = np.append(x[starts], x[-1])
    low, high = np.append(low, low[-1]), np.append(high, high[-1])
    band: dict[str, Any] = {"color": style["color"], "alpha": 0.25, "linewidth": 0, "label": BAND}
    axes.fill_between(places, low, high, step="post", **band)
    axes.plot(np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts, **style)


def plot_curves(axes: Axes, curves: Iterable[Curve]) -> None:
    """Plot curves over the whole width, each in its colour and style, with a label for legends."""
    for index, curve in enumerate(curves):
        plot_curve(axes, curve.x, curve.y, **curve_style(index), label=legend_label(curve.label))
    axes.margins(x=0)


def heat_map(
    axes: Axes,
    values: NDArray[Any],
    *,
    most: float | None = None,
    label: str = "",
    **style: Any,
) -> None:
    """Draw numbers as colours, with a bar as high as they; with `most`, blue below 0, red above."""
    if most is not None:
        style |= {"cmap": "RdBu_r", "vmin": -most, "vmax": most}
    axes.grid(visible=False)
    image = axes.imshow(values, interpolation="nearest", aspect="auto", **style)
    bar = axes.inset_axes((1.04, 0, 0.05, 1))
    axes.figure.colorbar(image, cax=bar, label=label)
    bar.grid(visible=False)


def _is_dense(x: NDArray[np.float64]) -> bool:
    return len(x) > MOST_POINTS and float(x[-1] - x[0]) > MOST_POINTS


def figure_bytes(figure: Figure, *, suffix: str, command: str, dpi: float | None = None) -> bytes:
    """Return a file of the given kind, with the command that made it in its metadata."""
    made_by = f"ropecli {__version__}"
    command = printable(command)  # a file's name may hold what neither XML nor a PDF can
    title, text = describe(figure)
    by_suffix: dict[str, dict[str, Any]] = {
        ".png": {"Software": made_by, "Title": title, "Description": command},
        ".svg": {"Creator": made_by, "Title": title, "Description": command, "Date": None},
        ".pdf": {"Creator": made_by, "Title": title, "Subject": command}
        | dict.fromkeys(("CreationDate", "Producer")),
    }
    buffer = io.BytesIO()
    with style():
        form, metadata = suffix.removeprefix("."), by_suffix[suffix]
        figure.savefig(buffer, format=form, metadata=metadata, dpi=dpi or "figure")
    content = buffer.getvalue()
    if suffix == ".svg":  # read aloud by screen readers, as Matplotlib's own metadata is not
        begin, end, tail = content.partition(b"</title>")
        content = begin + end + f"\n <desc>{escape(text, quote=False)}</desc>".encode() + tail
        content = content.replace(b"<svg ", b'<svg role="img" ', 1)
    return content


def describe(figure: Figure) -> tuple[str, str]:
    """Return the title of a figure, and a sentence on each of its panels."""
    panels = [axes for axes in figure.axes if axes.get_xlabel() or axes.get_title()]
    titles = [figure.get_suptitle(), *(axes.get_title() for axes in panels)]
    parts = []
    for axes in panels:
        what = " against ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
        curves = [name for name in axes.get_legend_handles_labels()[1] if name]
        names = f"{': ' if what else ''}{', '.join(curves)}" if curves else ""
        parts.append(": ".join(filter(None, (axes.get_title(), what + names))))
    text = ". ".join(filter(None, [figure.get_suptitle(), *parts]))
    title = next(filter(None, titles), "") or (parts or ["ropecli"])[0]
    return printable(title.replace("\n", " ")), printable(text.replace("\n", " "))
