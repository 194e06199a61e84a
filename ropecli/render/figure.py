"""Style, metadata and reproducible bytes of all Matplotlib figures."""

from __future__ import annotations

import contextlib
import io
import os
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from ropecli._version import __version__
from ropecli.errors import ArgumentError
from ropecli.numbers import positive
from ropecli.render.labels import NamedResult, curve_label

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Matplotlib warns on stderr where it can't write its folder; ours may be writable.
os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("ropecli") / "matplotlib"))

#: Colours that colour-blind readers tell apart (Okabe and Ito), and line styles. There are 7 and 6,
#: without a common divisor: 42 curves go by before two look the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
LINE = 0.22  #: Inches of a line of the legend.
MOST_POINTS = 4096  #: Distances up to which each one is plotted.
TITLE = 40  #: Characters of a line of a column's title.
BANDS = 256  #: Groups of neighbours beyond that.
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 150,
    "font.size": 10,
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
_STYLE: ContextVar[str | None] = ContextVar("style", default=None)
_PLACE: ContextVar[Any] = ContextVar("place", default=None)  #: A part of another figure.
LARGEST_IMAGE = 10**8  #: Pixels of a .png.


Draw = TypeVar("Draw", bound=Callable[..., Any])


def with_style(draw: Draw) -> Draw:
    """Let a function draw in the style of all figures."""
    return style()(draw)


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Set Matplotlib's own defaults, ours, and then the style that was asked for.

    What a matplotlibrc of the user sets is left out: a figure looks the same everywhere.
    """
    import matplotlib as mpl
    from matplotlib.style import available, use

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        chosen = _STYLE.get()
        if chosen is not None:
            try:
                use(chosen)
            except OSError:
                names = ", ".join(name for name in available if not name.startswith("_"))
                raise ArgumentError(
                    f"style must be a .mplstyle file or one of {names}, got {chosen!r}"
                ) from None
        mpl.rcParams.update(FIXED)
        yield


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
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }

    @contextlib.contextmanager
    def apply(self) -> Iterator[None]:
        """Let figures be drawn in the style."""
        token = _STYLE.set(self.style)
        try:
            yield
        finally:
            _STYLE.reset(token)

    def change(self, picture: Figure) -> None:
        """Change the size, the scales and the title of a figure."""
        own = picture.get_size_inches()
        size = (self.width or own[0], self.height or own[1])
        picture.set_size_inches(*size)
        pixels = size[0] * size[1] * (self.dpi or STYLE["savefig.dpi"]) ** 2
        if pixels > LARGEST_IMAGE:
            raise ArgumentError(
                f"a figure must have at most {LARGEST_IMAGE:,} pixels, got {pixels:,.0f}"
            )
        if self.log_x:
            _set_log_x(picture)
        if self.title is not None:
            _set_title(picture, self.title)


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
    cell, part, whole = ax.get_subplotspec(), ax.get_figure(), ax.get_figure(root=True)
    if cell is None or part is None or whole is None:
        raise ArgumentError("ax must be axes of a grid, such as plt.subplots makes")
    if whole.get_layout_engine() is None:
        whole.set_layout_engine("constrained")  # else labels of neighbours overlap
    ax.remove()
    token = _PLACE.set(part.add_subfigure(cell))
    try:
        yield whole
    finally:
        _PLACE.reset(token)


def blank_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches, which arranges its panels itself."""
    from matplotlib.figure import Figure

    place = _PLACE.get()
    return place or Figure(figsize=(width, height), layout="constrained")


def column_title(result: NamedResult) -> str:
    """Return the label of an encoding, in lines for the title of one of several columns."""
    return textwrap.fill(curve_label(result), TITLE)


def legend_below(
    picture: Figure, handles: Sequence[Artist] | None = None, *, columns: int = 1
) -> None:
    """Add a legend below all panels, where it hides no curve, with `$` as a plain character."""
    own = {} if handles is None else {"handles": handles}
    for text in picture.legend(loc="outside lower center", ncols=columns, **own).get_texts():
        text.set_parse_math(False)


def legend_label(name: str) -> str:
    """Return a name that Matplotlib shows: it leaves out those that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def whole_ticks(axis: Axis) -> None:
    """Label an axis of indices at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def printable(text: str) -> str:
    """Return the text without characters that fonts or file formats cannot hold."""
    return "".join(c if c.isprintable() else "?" for c in text)


def curve_style(index: int) -> dict[str, Any]:
    """Return colour and line style of one of several curves."""
    return {"color": colour(index), "linestyle": LINES[index % len(LINES)]}


def colour(index: int) -> str:
    """Return the colour of one of several curves: ours, or those of the style."""
    if _STYLE.get() is None:
        return COLOURS[index % len(COLOURS)]
    import matplotlib as mpl

    colours = mpl.rcParams["axes.prop_cycle"].by_key().get("color", COLOURS)
    return str(colours[index % len(colours)])


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
    counts = np.diff(np.append(starts, len(x)))
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    places = np.append(x[starts], x[-1])
    axes.fill_between(
        places,
        np.append(low, low[-1]),
        np.append(high, high[-1]),
        step="post",
        color=style["color"],
        alpha=0.25,
        linewidth=0,
    )
    axes.plot(np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts, **style)


def distance_label(x: NDArray[np.float64]) -> str:
    """Return the label of the axis of distances, and what `plot_curve` made of the curves."""
    words = "\nlines: mean of neighbours, bands: their range" if _is_dense(x) else ""
    return f"relative distance{words}"


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
        ".pdf": {
            "Creator": made_by,
            "Title": title,
            "Subject": command,
            "CreationDate": None,
            "Producer": None,
        },
    }
    buffer = io.BytesIO()
    with style(), warnings.catch_warnings():
        # A file's name may have letters that the font lacks; they become boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(
            buffer,
            format=suffix.removeprefix("."),
            metadata=by_suffix[suffix],
            dpi="figure" if dpi is None else dpi,
        )
    content = buffer.getvalue()
    if suffix == ".svg":  # read aloud by screen readers, as Matplotlib's own metadata is not
        begin, end, rest = content.partition(b"</title>")
        content = begin + end + f"\n <desc>{escape(text, quote=False)}</desc>".encode() + rest
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
    return printable(title.replace("\n", ", ")), printable(text.replace("\n", ", "))
