"""Page, table and figure of `scores`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.invariance import Invariance, Property
from ropecli.analyses.scores import ScoreMap, Scores
from ropecli.render import Table, View, fields
from ropecli.render.console import Screen, paragraphs, wrap_text
from ropecli.render.figure import columns_of_panels, heat_map
from ropecli.render.labels import quantity
from ropecli.results import Figure

HEADINGS = {
    "translation_invariance": "invariant",
    "symmetry": "symmetric",
    "boundedness": "bounded",
    "decay": "decaying",
    "linear_shift": "linear",
}
PROPERTY = ("holds", "max_error", "tolerance", "theory", "agrees")  #: Fields in the document.
WORDS = {True: "yes", False: "no", None: "-"}
#: The four terms of Eq. 6, and what they are products of.
TERMS = {
    "content_content": "x_m x_n",
    "content_position": "x_m p_n",
    "position_content": "p_m x_n",
    "position_position": "p_m p_n",
}
#: What each encoding makes of the four terms of Eq. 6.
CHANGES = {
    "alibi": "a bias by distance in place of all three",
    "cope": "positions counted by the keys before: not a sum of such terms",
    "deberta": "Eq. 10: relative positions in both cross terms, no p_m p_n",
    "fire": "a bias by distance, learned, in place of all three",
    "kerple": "a bias by distance, learned, in place of all three",
    "learned": "Eq. 6 itself, with learned p_m and p_n",
    "nope": "only the first term: no positions",
    "pope": "only the first term, of softplus(q) and softplus(k), turned by n - m",
    "rope": "Eq. 16: only the first term, rotated by m - n",
    "shaw": "Eq. 5: a vector by distance in place of p_n; values get one too",
    "sinusoidal": "Eq. 6 itself, with sinusoids p_m and p_n",
    "t5": "Eq. 8: a bias by distance in place of all three; no 1 / sqrt(d)",
    "transformer_xl": "Eq. 7: sinusoids by distance for p_n, vectors u, v for W_q p_m",
    "tupe": "Eq. 9: no cross terms; p_m p_n with its own projections, a bias",
    "xpos": "only the first term, turned and scaled by m - n",
}
FLAT = 1e-9  #: A range that is a smaller part of the values is their rounding.


def as_json(result: Scores, **_: Any) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "agrees": result.agrees,
        "encodings": [
            {
                "name": scored.name,
                "equation": scored.equation,
                "agrees": measured.agrees,
                **fields(scored, "causal", "scores", "attention", "output"),
                "terms": {name: _rms(term) for name, term in scored.terms.items()},
                **{name: fields(prop, *PROPERTY) for name, prop in measured.properties.items()},
            }
            for scored, measured in zip(result.maps, result.invariances, strict=True)
        ],
    }


def _table_of_properties(result: Invariance) -> Table:
    """Return a row for each property of one encoding."""
    names = ("max_error", "tolerance", "theory", "holds", "agrees")
    measured = [fields(prop, *names) for prop in result.properties.values()]
    columns = {name: [mapping[name] for mapping in measured] for name in names}
    return {"property": [*result.properties], **columns}


def table(result: Scores, **_: Any) -> Table:
    """Return a row for each encoding, query and key."""
    maps, shape = result.maps, result.maps[0].scores.shape
    query, key = np.indices(shape).reshape(2, -1)
    none = np.full(shape, np.nan)

    def join(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.concatenate([part.ravel() for part in parts])

    return {
        "encoding": [scores.name for scores in maps for _ in query],
        "query_position": np.tile(query, len(maps)),
        "key_position": np.tile(key, len(maps)),
        "score": join(scores.scores for scores in maps),
        "attention": join(scores.attention for scores in maps),
        **{name: join(scores.terms.get(name, none) for scores in maps) for name in TERMS},
    }


def page(result: Scores, screen: Screen, **_: Any) -> list[str]:
    """Return the verdict; then the properties, attention and terms of each encoding."""
    wrong = [line for invariance in result.invariances for line in _disagreements(invariance)]
    if wrong:
        disagreements = quantity(len(wrong), "disagreement")
        answer = f"FAIL: {disagreements} with theory, seed {result.seed}"
    else:
        answer = _differences(result.invariances)
    blocks = [[answer], wrong]
    if not screen.brief:
        blocks += [
            properties(result.invariances, screen),
            [
                "The number is the largest error; decaying: the largest rise over a step.",
                *([] if wrong else [f"Measurement and theory agree, seed {result.seed}."]),
            ],
            _attention(result, screen),
            _terms(result, screen),
            screen.offer("Save the heat maps: -o scores.png    all of it: --json"),
        ]
    return [
        part
        for line in paragraphs(*blocks)  # a line of the table keeps its gaps
        for part in (
            [line] if len(line) <= screen.width else wrap_text(line, screen.width, indent=4)
        )
    ]


def _attention(result: Scores, screen: Screen) -> list[str]:
    """Return the range of the scores, their softmax and the output: a line for each encoding."""
    rows = [["", "lowest", "highest", "entropy", "own position", "|output|"]]
    for scores in result.maps:
        seen = scores.scores[np.isfinite(scores.scores)]
        diagonal = float(np.diagonal(scores.attention).mean())
        length = float(np.linalg.norm(scores.output, axis=1).mean())
        numbers = (seen.min(), seen.max(), scores.entropy, diagonal, length)
        rows.append([scores.name, *(f"{number:.4g}" for number in numbers)])
    tokens = "one token at" if result.same_token else "tokens at"
    queries, keys = result.maps[0].scores.shape
    return [
        f"Scores, softmax and output (Eq. 2): {tokens} {queries} x {keys} positions, "
        f"head {result.head}{_mask(result)}",
        *screen.align(rows, left=1),
        f"Entropy in nats, 0 to ln {keys} = {math.log(keys):.4g}; means over the queries.",
    ]


def _mask(result: Scores) -> str:
    """Return the end of a heading: which attention is causal."""
    others = [scores.name for scores in result.maps if not scores.causal]
    if len(others) == len(result.maps):
        return ""
    return ", causal" + (f" but for {', '.join(others)}" if others else "")


def _terms(result: Scores, screen: Screen) -> list[str]:
    """Return the size of each term of Eq. 6, and what stands for it in each encoding."""
    rows = [["", *TERMS.values()]]
    for scores in result.maps:
        sizes = [scores.terms.get(name) for name in TERMS]
        rows.append(
            [scores.name, *("-" if term is None else f"{_rms(term):.4g}" for term in sizes)]
        )
    width = max(len(scores.name) for scores in result.maps)
    changes = [f"{scores.name:<{width}}  {CHANGES[scores.name]}" for scores in result.maps]
    return [
        "Terms of Eq. 6, by what they are products of: root mean square over the map",
        *screen.align(rows, left=1),
        "",
        *changes,
    ]


def _rms(term: NDArray[np.float64]) -> float:
    """Return the root mean square of what is not masked."""
    seen = term[np.isfinite(term)]
    return float(np.sqrt(np.mean(seen**2))) if len(seen) else 0.0


def _differences(measured: Sequence[Invariance]) -> str:
    """Return in which encodings a shift of all tokens changes the scores."""
    shifted: dict[bool, list[str]] = {True: [], False: []}
    for invariance in measured:
        shifted[invariance.properties["translation_invariance"].holds is not False].append(
            invariance.name
        )
    same, changed = (", ".join(shifted[invariant]) for invariant in (True, False))
    if not changed:
        unlike = _other_difference(measured)
        return f"A shift of all tokens leaves the scores as they are: {same}{unlike}"
    kept = f", and not those of {same}" if same else ""
    return f"A shift of all tokens changes the scores of {changed}{kept}"


def _other_difference(measured: Sequence[Invariance]) -> str:
    """Return the first other property that some of the encodings have and some have not."""
    for name, words in {"boundedness": "bounded by |q||k|", "symmetry": "symmetric"}.items():
        having = {True: list[str](), False: list[str]()}
        for invariance in measured:
            holds = invariance.properties[name].holds
            if holds is not None:
                having[holds].append(invariance.name)
        if having[True] and having[False]:
            yes, no = (", ".join(having[invariant]) for invariant in (True, False))
            return f"; those of {yes} are {words}, those of {no} are not"
    return ""


def properties(measured: Iterable[Invariance], screen: Screen) -> list[str]:
    """Return two lines for each encoding: measured, and theory."""
    rows = [["", *HEADINGS.values()]]
    for encoding in measured:
        found = [encoding.properties[name] for name in HEADINGS]
        rows.append([encoding.name, *(_measured_cell(prop) for prop in found)])
        rows.append(["  theory", *(f"{WORDS[prop.theory]:<8}" for prop in found)])
    return screen.align(rows, left=1)


def _measured_cell(found: Property) -> str:
    if found.max_error is None:
        return f"{WORDS[None]:<8}"
    return f"{WORDS[found.holds]:<3} {found.max_error:<.0e}"


def _disagreements(encoding: Invariance) -> list[str]:
    return [
        f"  {encoding.name}: {HEADINGS[name]} was measured {WORDS[invariance.holds]} "
        f"(error {invariance.max_error:.3g}, tolerance {invariance.tolerance:.3g}), "
        f"theory says {WORDS[invariance.theory]}"
        for name, invariance in encoding.properties.items()
        if not invariance.agrees
    ]


def figure(result: Scores, *, attention: bool = False) -> Figure:
    """Return a heat map for each encoding, each with its own scale.

    Scales differ because not all encodings divide by sqrt(head_dim). Where scores have both signs,
    white is 0, red is positive and blue is negative; else the scale is that of the scores.
    """
    what = "attention" if attention else "scores"
    tokens = "one token at every position, " if result.same_token else ""
    masked = _mask(result) if attention or result.causal else ""
    title = f"{what} of head {result.head}, {tokens}seed {result.seed}{masked}"
    picture, panels = columns_of_panels(
        [map_title(scores) for scores in result.maps], [2.4], width=2.4, alone=3.4, share=False
    )
    picture.suptitle(title)
    for place, (axes, scores) in enumerate(zip(panels[0], result.maps, strict=True)):
        weights = np.where(np.isneginf(scores.seen), np.nan, scores.attention)
        values = np.ma.masked_invalid(weights if attention else scores.scores)
        heat_map(axes, values, **_scale(values.compressed()))
        axes.set_box_aspect(1)
        across = axes.get_gridspec().ncols
        lowest = place + across >= len(result.maps)
        axes.set_xlabel("key n" if lowest else "")
        axes.tick_params(labelbottom=lowest)  # all maps have the same keys
        axes.set_ylabel("" if place % across else "query m")
    return picture


def _scale(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return the colours and their range: around 0 for both signs, else that of the values."""
    if not len(values):
        return {"vmin": 0.0, "vmax": 1.0}
    low, high = float(values.min()), float(values.max())
    if low < 0 < high:
        return {"most": max(-low, high)}
    if high - low <= FLAT * max(abs(low), abs(high)):  # rounding alone would fill the scale
        middle, spread = (low + high) / 2, abs(high) or 1.0
        low, high = middle - spread / 2, middle + spread / 2
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def map_title(scored: ScoreMap) -> str:
    """Return the name of the encoding, with its equation where it has a number of RoFormer."""
    number = f" (Eq. {scored.equation})" if scored.equation[:1].isdigit() else ""
    return scored.name + number


VIEW = View(page=page, document=as_json, table=table, figure=figure)
INVARIANCE = View(
    page=lambda result, screen: properties([result], screen), table=_table_of_properties
)
