"""Options that several commands share, with one meaning and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Layout = Annotated[
    str,
    typer.Option(
        metavar="LAYOUT",
        help="interleaved: pairs (2i, 2i+1), the paper's; half: pairs (i, i + dim/2).",
    ),
]
RotaryDim = Annotated[
    int | None,
    typer.Option(metavar="N", help="Coordinates that are rotated, even; all of --dim by default."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Figure (.png .svg .pdf) or numbers (.csv .json), by the suffix.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, nothing else.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No notes, warnings or progress.")]
Seed = Annotated[int, typer.Option(metavar="N", help="What random numbers are drawn with.")]
