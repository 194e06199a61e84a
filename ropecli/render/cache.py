"""Page, table and figure of `cache`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.cache import SAFE, CachedKeys, MixedKeys, QuantizedKeys, ShiftedKeys
from ropecli.arrays import Array
from ropecli.render import Table, View
from ropecli.render.console import Screen, paragraphs
from ropecli.render.curves import Curve, draw
from ropecli.render.figure import columns_of_panels, curve_style, plot_curve
from ropecli.render.labels import ENCODING, curve_label, quantity
from ropecli.render.table import spread
from ropecli.results import Figure
from ropecli.rotary import Rotary

INSTEAD = {
    "shift": "Instead: keep keys unrotated and rotate them when they are read, or shift each time "
    "from a float32 copy.",
    "lengths": "Instead: keep keys unrotated and rotate all of them with the table of the new "
    "length, or use the table of the longest sequence from the first token on.",
}


#: Fields of the document, with the same keys in every mode.
DOCUMENT = (
    *("mode", *ENCODING, "valid as allowed", "reason", "key_error", "score_error_rms"),
    *("attention_error", "by_pair", "distance", "by_distance"),
    ("shifts", lambda result: getattr(result, "shifts", [])),
    ("by_shifts", lambda result: getattr(result, "by_shifts", [])),
    ("safe_shifts", lambda result: getattr(result, "safe_shifts", None)),
)


def table(result: CachedKeys) -> Table:
    """Return the curves, a row for each pair, distance and number of shifts."""
    curves = {name: curve for name, _, *curve in _curves(result)}
    return {
        "against": [name for name, (x, _) in curves.items() for _ in x],
        "value": np.concatenate([np.asarray(x, np.float64) for x, _ in curves.values()]),
        "error": np.concatenate([y for _, y in curves.values()]),
    }


def _curves(result: CachedKeys) -> list[tuple[str, str, NDArray[np.number], Array]]:
    """Return the name of the axis, the label, the places and the errors of each curve."""
    keys, scores = "rms error of keys", "rms error of scores"
    pairs = ("pair", keys, np.arange(len(result.by_pair)), result.by_pair)
    if isinstance(result, ShiftedKeys):
        return [pairs, ("shifts", keys, result.shifts, result.by_shifts)]
    return [pairs, ("distance", scores, result.distance, result.by_distance)]


def page(result: CachedKeys, screen: Screen) -> list[str]:
    """Return the answer, and the errors by pair, and by number of shifts or distance."""
    answer, heading = _sentences(result)
    blocks = [[answer], [heading, curve_label(result)]]
    if isinstance(result, ShiftedKeys | QuantizedKeys) and result.hadamard:
        blocks[-1].append("a Hadamard matrix mixes the channels before they are quantized")
    if result.key_error:
        share = f"{100 * result.attention_error:.2g} % of attention moves to other keys"
        blocks[-1].append(f"{share} (scores of standard deviation 1)")
        if screen.braille and len(result.by_pair) > 1:
            blocks.append([_plot(result, screen.width)])
        blocks += [screen.align(_rows(result.rope, *curve)) for curve in _curves(result)]
        if result.mode in INSTEAD and result.key_error > SAFE:
            blocks.append(screen.wrap(INSTEAD[result.mode], indent=0))
    save = screen.offer("Save the figure: -o cache.png    the numbers: -o cache.csv")
    return paragraphs(*blocks, save)


def _sentences(result: CachedKeys) -> tuple[str, str]:
    """Return the answer, and the heading of the numbers: what is compared with what."""
    if isinstance(result, ShiftedKeys):
        answer = _safe_shifts(result)
        if not result.valid:
            answer = (
                f"No plain shift: {result.reason}. Apart from that, {answer[0].lower()}{answer[1:]}"
            )
        keys = "Keys rotated again and again, against keys rotated once"
        return answer, f"{keys}; seed {result.seed}"
    off = f"scores are off by {_part(result.score_error_rms)} their rms"
    if isinstance(result, MixedKeys):
        off = "Scores have no error" if result.valid else off.capitalize()
        heading = "Keys of one length under queries of another, against keys of the new length"
        return f"{off} where {_describe_keys(result)}: {result.reason}.", heading
    assert isinstance(result, QuantizedKeys)
    keys = "of the file" if result.seed is None else f"of white noise, seed {result.seed}"
    count = f"{quantity(result.tokens, 'key')} in a head"
    return (
        f"{_describe_keys(result)}: {off}.",
        f"Quantized keys against exact ones; {count}, {keys}",
    )


def _describe_keys(result: CachedKeys) -> str:
    """Return what was done to the keys."""
    if isinstance(result, ShiftedKeys):
        return f"{result.dtype} keys shifted by {result.shift:,}"
    if isinstance(result, MixedKeys):
        since = " and decoded since" if result.decoded else ""
        return f"keys cached at length {result.prefill:,}{since} meet a query at {result.decode:,}"
    assert isinstance(result, QuantizedKeys)
    group = f" of {result.group} channels" if result.per == "group" else ""
    return f"{result.format} per {result.per}{group}, {result.when} rotation"


def _safe_shifts(result: ShiftedKeys) -> str:
    """Return how many shifts keep scores within 1 %, and the error after all of them."""
    safe, times = result.safe_shifts, result.times
    count = (
        ("At least " if safe == times > 1 else "") + quantity(safe, "shift") if safe else "No shift"
    )
    keep = f"by {result.shift:,} keep{'s' if safe < 2 else ''} scores within {100 * SAFE:g} %"
    after = f"after {times:,} the error is {_part(result.score_error_rms)} their rms"
    return f"{count} {keep} ({result.dtype}); {after}."


def _part(error: float) -> str:
    """Return an error as a percentage, or as a multiple from 1 on."""
    return f"{error:.3g} times" if error >= 1 else f"{100 * error:.2g} % of"


def _rows(
    rope: Rotary, name: str, label: str, x: NDArray[np.number], y: Array
) -> list[tuple[str, ...]]:
    """Return the rows of a table of a curve, at a few places, evenly spread."""
    chosen = spread(len(x))
    columns = [[name, *(f"{x[i]:,.0f}" for i in chosen)]]
    if name == "pair":
        columns.append(["wavelength", *(f"{rope.wavelength[i]:,.4g}" for i in chosen)])
    columns.append([label, *(f"{y[i]:.3g}" for i in chosen)])
    return list(zip(*columns, strict=True))


def _plot(result: CachedKeys, width: int) -> str:
    x = np.arange(float(len(result.by_pair)))
    curve = Curve(label="error", x=x, y=result.by_pair)
    return draw([curve], x_label="pair", columns=width, least=0)


def figure(result: CachedKeys) -> Figure:
    """Return a panel for each curve."""
    curves = _curves(result)
    picture, panels = columns_of_panels([""] * len(curves), [3.2], share=False)
    for axes, (name, label, x, y) in zip(panels[0], curves, strict=True):
        plot_curve(axes, np.asarray(x, np.float64), y, **curve_style(0))
        if name == "shifts" and len(x) > 1 and y.all():
            axes.set(xscale="log", yscale="log")
        else:
            axes.set_ylim(bottom=0)
        axes.set(xlabel=f"number of {name}" if name == "shifts" else name, ylabel=label)
    picture.suptitle(f"{curve_label(result)}\n{_describe_keys(result)}", parse_math=False)
    return picture


VIEW = View(page=page, document=DOCUMENT, table=table, figure=figure)
