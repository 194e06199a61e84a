"""What every Matplotlib figure shares: style, provenance, and the same bytes from run to run."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from ropecli._version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Matplotlib warns on stderr where it can't write its folder; ours may be writable.
os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("ropecli") / "matplotlib"))

#: Colours that colour-blind readers tell apart (Okabe and Ito), with a line style each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
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
