"""Options that several commands share, with one meaning and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Base = Annotated[
    float | None,
    typer.Option(metavar="B", help="Base, finite and above 0; 10000 by default."),
]
Layout = Annotated[
    str | None,
    typer.Option(
        metavar="LAYOUT",
        help="interleaved: pairs (2i, 2i+1), the default; half: pairs (i, i + dim/2).",
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
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="SOURCE",
        help="A config.json, a folder that holds one, a .gguf, or - for stdin: takes all from it.",
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="Which kind of layer, where the model has several."),
]
SequenceLength = Annotated[
    int | None,
    typer.Option(metavar="N", help="Positions in use: for dynamic NTK and LongRoPE."),
]
RopeType = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="linear, yarn, llama3, ...; default by default."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A parameter of it, named as in config.json; repeatable."
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="A picture (.png .svg .pdf), by the suffix."
    ),
]
Reading = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="STACK",
        help="How to read it: transformers, vllm, llama.cpp, mlx-lm or paper.",
    ),
]
