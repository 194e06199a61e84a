"""What every Matplotlib figure shares: style, provenance, and the same bytes from run to run."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from platformdirs import user_cache_path

from ropecli._version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Matplotlib warns on stderr where it can't write its folder; ours may be writable.
os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("ropecli") / "matplotlib"))

#: Colours that colour-blind readers tell apart (Okabe and Ito), and line styles. There are 7 and 6,
#: without a common divisor: 42 curves go by before two look the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
SHOWN = 4096  #: Distances whose waves are drawn one by one.
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


def look(index: int) -> dict[str, Any]:
    """Colour and line style of one of several curves."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}


def trace(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], **style: Any) -> None:
    """Draw a curve; of more waves than a page can show, the mean of neighbours and their range."""
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
    """What runs along the axis of distances, and what `trace` made of the curves."""
    words = "; lines: mean of neighbours, bands: their range" if _is_dense(x) else ""
    return f"relative distance{words}"


def _is_dense(x: NDArray[np.float64]) -> bool:
    return len(x) > SHOWN and float(x[-1] - x[0]) > SHOWN


def saved(figure: Figure, *, suffix: str, command: str) -> bytes:
    """The figure as a file of the given kind, with the command that made it inside."""
    import matplotlib as mpl

    made_by = f"ropecli {__version__}"
    # A file's name may hold what neither XML nor a PDF can.
    command = "".join(letter if letter.isprintable() else "?" for letter in command)
    by_suffix: dict[str, dict[str, Any]] = {
        ".png": {"Software": made_by, "Description": command},
        ".svg": {"Creator": made_by, "Description": command, "Date": None},
        ".pdf": {"Creator": made_by, "Subject": command, "CreationDate": None, "Producer": None},
    }
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=suffix.removeprefix("."), metadata=by_suffix[suffix])
    return buffer.getvalue()
