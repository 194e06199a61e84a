"""The decay command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ropecli.cli.command import Help, command, flag, option
from ropecli.cli.options import EncodingListOptions, OutputOptions, Seed
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.analyses.decay import Decay
    from ropecli.cli.encoding import NamedRotary

DEFAULT = {"start": 0.0, "max_distance": 512.0, "step": 1.0}
FIGURE_2 = {"start": 0.0, "max_distance": 256.0, "step": 0.02}  #: The paper's frame.
#: Options of the bound and of scores, which neither a map nor expected scores have.
OF_BOUND = (
    *("start", "step", "reduce", "figure2"),
    *("q", "k", "q_row", "k_row", "at", "contributions"),
)


@command(
    needs={"q": "k", "k": "q", "q_row": "q", "k_row": "k", "at": "q", "positions": "encoding"},
    excludes={
        "figure2": ("q", "k", "contributions"),
        "encoding": OF_BOUND,
    },
)
def decay(
    max_dist: float | None = option("R", "Last relative distance, included. [default: 512]"),
    start: float | None = option("R", "First relative distance. [default: 0]"),
    step: float | None = option("R", "Spacing of relative distances. [default: 1]"),
    reduce: str | None = option(
        "mean|sum", "Aggregate |S_j| by mean (as in the paper) or sum. [default: mean]"
    ),
    figure2: bool = flag(
        "--figure2", "Frame of the paper's Figure 2: 0 to 256, continuous, clipped."
    ),
    q: str | None = option("Q", "Query before rotation: numbers, e.g. 1,2,3,4, or .npy; with --k."),
    k: str | None = option("K", "Key before rotation, typed or a file; with --q."),
    contributions: bool = flag("--contributions", "Show what each pair adds to the score."),
    q_row: int | None = option("N", "Row of a --q file with several vectors."),
    k_row: int | None = option("N", "Row of a --k file with several vectors."),
    at: float | None = option(
        "R", "Distance at which each pair of --q and --k is shown. [default: 0]"
    ),
    *,
    rope: Annotated[
        EncodingListOptions, Help(dim="Head dim, even; repeatable. [default: 128, or that of --q]")
    ],
    encoding: list[str] | None = option(
        "NAME,...", "Encodings whose expected score is shown, e.g. rope,t5, or all; repeatable."
    ),
    positions: int | None = option(
        "N", "Positions in the heat map of --encoding sinusoidal. [default: 128]"
    ),
    seed: Seed = 0,
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli decay --dim 128 --max-dist 512
        at distance 0      32.5        = (pairs + 1) / 2, exactly
        halved by          16
        rises first at     19
        at distance 512    5.311
        lowest             4.871    at 482
      ropecli decay --q 1,0,1,0 --k 1,0,0,1
        bound on |score|     least  largest  best |score|/bound  median
        max bound (Eq. 37)   1.415    4.243              0.9994  0.2366
        Abel bound (Eq. 37)  1.415    3.414              0.9996  0.2821
        norms |q||k|             2        2              0.9984  0.3696
        envelope, sum |h_i|      2        2              0.9984  0.3696
      ropecli decay --encoding sinusoidal --dim 64 --max-dist 256
        distance  similarity     limit
               1    0.966151  0.973963
              64    0.434565  0.487335
             256    0.353683  0.334864
      ropecli decay --base 10000 --base 500000 --max-dist 4096 -o bases.svg
      ropecli decay --figure2 -o figure2.png
      ropecli decay --q q.npy --k k.npy --q-row 3 --at 100 -o scores.png
      ropecli decay --model example:llama-3.1-8b --max-dist 4096
      ropecli decay --dim 16 --contributions -o contributions.png
      ropecli decay --encoding all --dim 16 -o expected.png

    Show how RoPE's relative upper bound falls with distance. It is the factor of the bound of
    RoFormer Eq. 37 that depends only on distance, the curve of its Figure 2. With --q and --k,
    also show the score of those vectors (Eq. 35), how tight both bounds of Eq. 37 and
    Cauchy-Schwarz are on it, the part of each pair, the sums S_j of Eq. 36, and the error of
    interpolating between positions. With --encoding sinusoidal, also show the inner products of
    sinusoidal codes and their limit for many dims.
    """
    from ropecli.analyses.decay import decay as analyse
    from ropecli.cli.encoding import read_vector
    from ropecli.numbers import at_least

    at_least("seed", seed, 0)
    frame = _frame(start, max_dist, step, figure2=figure2)
    if figure2 and reduce not in (None, "mean"):
        raise ArgumentError("--reduce cannot be combined with --figure2")
    query = None if q is None else read_vector("--q", q, q_row, option="--q-row")
    key = None if k is None else read_vector("--k", k, k_row, option="--k-row")
    ropes = rope.encodings(dim=128 if query is None else len(query.values), uses_context=False)
    for name, vector in (("--q", query), ("--k", key)):  # which may be rows of one file
        output.note(*(f"{name} {note}" for note in (vector.notes if vector is not None else ())))
    if at is not None and output.writes_table:
        output.note(f"--at has no effect on {output.output}, which has the scores at all distances")
    output.note_encodings(ropes)
    if encoding:
        if len(ropes) != 1:
            raise ArgumentError("--encoding takes one --dim, --base, --model or --layer")
        last = frame["max_distance"]
        _show_expected(encoding, ropes[0], last, positions, seed, output)
        return
    curves: list[Decay] = [
        analyse(
            rotary.rope,
            **frame,
            reduce=reduce or "mean",
            q=None if query is None else query.values,
            k=None if key is None else key.values,
            at=at or 0,
            contributions=contributions,
            name=rotary.name,
        )
        for rotary in ropes
    ]
    resolved = {
        "start": frame["start"],
        "max_dist": frame["max_distance"],
        "step": frame["step"],
        "q_row": None if query is None else query.row,
        "k_row": None if key is None else key.row,
        "at": None if query is None else at or 0.0,
    }
    unused = ("encoding", "positions", "seed")
    parameters = output.parameters(curves, omit=unused, **resolved)
    output.show_all(curves, parameters, figure2=figure2)


def _show_expected(
    names: list[str],
    named: NamedRotary,
    max_distance: float,
    positions: int | None,
    seed: int,
    output: OutputOptions,
) -> None:
    """Show the expected scores of encodings, RoPE's bound, and sinusoidal codes."""
    from ropecli.analyses.decay import decay as analyse
    from ropecli.analyses.expected import ExpectedCurves, expected_score
    from ropecli.analyses.similarity import similarity
    from ropecli.cli.encoding import encoding_names
    from ropecli.cli.progress import progress_bar
    from ropecli.encodings import with_table

    last = int(max_distance) if abs(max_distance) < 2**53 else 0
    if last != max_distance:
        raise ArgumentError(
            f"--encoding requires integer distances, got --max-dist {max_distance:g}"
        )
    chosen = encoding_names(names)
    alone = chosen == ["sinusoidal"]
    if positions is not None and not alone:
        raise ArgumentError("--positions requires --encoding sinusoidal")
    rope = named.rope
    bound = analyse(rope, max_distance=last, name=named.name)
    codes = None
    shown = 128 if positions is None else positions
    if alone:
        codes = similarity(rope, max_distance=last, positions=shown, name=named.name)
    curves = []
    for name in chosen:
        options = {"rotary": rope} if name == "rope" else {}
        sizes = {"model_dim": 4 * rope.head_dim, "head_dim": rope.head_dim}
        encoding = with_table(name, last + 1, **sizes, seed=seed, **options)
        with progress_bar(name, wanted=not output.quiet, of="steps") as progress:
            curve = expected_score(encoding, max_distance=last, seed=seed, progress=progress)
        curves.append(curve)
    resolved = {"encoding": chosen, "max_dist": last, "dim": rope.head_dim, "base": rope.base}
    resolved |= {"positions": shown} if alone else {}
    parameters = output.parameters(rope, omit=(*OF_BOUND, "positions"), **resolved)
    output.show(ExpectedCurves(curves=tuple(curves), bound=bound, similarity=codes), parameters)


def _frame(
    start: float | None, max_dist: float | None, step: float | None, *, figure2: bool
) -> dict[str, float]:
    given = {"start": start, "max_distance": max_dist, "step": step}
    frame = {name: value for name, value in given.items() if value is not None}
    if figure2 and FIGURE_2 | frame != FIGURE_2:
        raise ArgumentError("--start, --max-dist and --step are those of --figure2; leave them out")
    return (FIGURE_2 if figure2 else DEFAULT) | frame
