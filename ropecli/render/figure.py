"""Style, metadata and reproducible bytes of all Matplotlib figures."""

from __future__ import annotations

import functools
import io
import os
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from platformdirs import user_cache_path

from ropecli._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Matplotlib warns on stderr where it can't write its folder; ours may be writable.
os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("ropecli") / "matplotlib"))

#: Colours that colour-blind readers tell apart (Okabe and Ito), and line styles. There are 7 and 6,
#: without a common divisor: 42 curves go by before two look the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
MOST_POINTS = 4096  #: Distances up to which each one is plotted.
BANDS = 256  #: Groups of neighbours beyond that.
STYLE: dict[Any, Any] = {
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
    "svg.fonttype": "path",
    "svg.hashsalt": "ropecli",
}


Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Let a function draw in the style of all figures."""

    @functools.wraps(draw)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return run


def blank_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches, which arranges its panels itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def legend_below(picture: Figure, handles: Sequence[Artist] | None = None) -> None:
    """Add a legend below all panels, where it hides no curve, with `$` as a plain character."""
    own = {} if handles is None else {"handles": handles}
    for text in picture.legend(loc="outside lower center", **own).get_texts():
        text.set_parse_math(False)


def legend_label(name: str) -> str:
    """Return a name that Matplotlib shows: it leaves out those that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def printable(text: str) -> str:
    """Return the text without characters that fonts or file formats cannot hold."""
    return "".join(c if c.isprintable() else "?" for c in text)


def curve_style(index: int) -> dict[str, Any]:
    """Return colour and line style of one of several curves."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}


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
    words = "; lines: mean of neighbours, bands: their range" if _is_dense(x) else ""
    return f"relative distance{words}"


def _is_dense(x: NDArray[np.float64]) -> bool:
    return len(x) > MOST_POINTS and float(x[-1] - x[0]) > MOST_POINTS


def figure_bytes(figure: Figure, *, suffix: str, command: str) -> bytes:
    """Return a file of the given kind, with the command that made it in its metadata."""
    import matplotlib as mpl

    made_by = f"ropecli {__version__}"
    command = printable(command)  # a file's name may hold what neither XML nor a PDF can
    by_suffix: dict[str, dict[str, Any]] = {
        ".png": {"Software": made_by, "Description": command},
        ".svg": {"Creator": made_by, "Description": command, "Date": None},
        ".pdf": {"Creator": made_by, "Subject": command, "CreationDate": None, "Producer": None},
    }
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A file's name may have letters that the font lacks; they become boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format=suffix.removeprefix("."), metadata=by_suffix[suffix])
    return buffer.getvalue()
