"""The positional encodings that other code is checked for, each with its readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.known import alibi, biases, learned, scores, sinusoidal, t5
from ropecli.checks.encoding.reading import Reading

Readings = Callable[[Array, Asked], Iterator[Reading]]


@dataclass(frozen=True, kw_only=True)
class Known:
    """An encoding: what code of it returns, and how that may read."""

    title: str
    equation: str  #: Where it is published.
    forms: Mapping[str, Readings]  #: By what the code returns, one of `FORMS`; likeliest first.
    #: Numbers that its formula has, with those of its paper.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Weights that it learns, by name, with the words that names of parameters have.
    weights: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def shapes(self, asked: Asked) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its weights in a call."""
        clip = int(asked.setting("clip", 2))
        every = {
            "bias": (int(asked.setting("num_buckets", 32)), asked.heads),
            "table": (int(asked.positions.max(initial=0)) + 4, asked.dim),
            **dict.fromkeys(("r1", "r2", "output_bias"), (asked.heads,)),
            **dict.fromkeys(("c", "threshold"), (1,)),
            **dict.fromkeys(("hidden", "hidden_bias"), (8,)),
            "output": (8, asked.heads),
            "key_positions": (2 * clip + 1, asked.dim),
            **dict.fromkeys(("u", "v"), (asked.heads, asked.dim)),
            "r": (asked.heads, asked.keys, asked.dim),
            "delta": (asked.heads, asked.dim),
            "position": (int(asked.setting("p_max", 4)), asked.dim),
        }
        of_tokens = self.title.startswith("TUPE")
        for name, size in (("position_query", asked.queries), ("position_key", asked.keys)):
            rows = (asked.heads, size, asked.dim) if of_tokens else (2 * clip, asked.dim)
            every[name] = rows
        return {name: every[name] for name in self.weights}


#: Names of tables by distance, as parameters have them.
RELATIVE = ("rel", "table", "emb", "position", "weight", "bias")
KNOWN: dict[str, Known] = {
    "alibi": Known(
        title="ALiBi",
        equation="Press et al. 2022",
        forms={"bias": alibi.bias_readings, "slopes": alibi.slopes_readings},
        settings={"bias_max": 8.0},
    ),
    "t5": Known(
        title="T5's bias",
        equation="8; Raffel et al. 2020",
        forms={"buckets": t5.bucket_readings, "bias": t5.bias_readings},
        settings=t5.SETTINGS,
        weights={"bias": RELATIVE},
    ),
    "sinusoidal": Known(
        title="sinusoidal",
        equation="4; Vaswani et al. 2017",
        forms={"table": sinusoidal.readings, "grid": sinusoidal.grid_readings},
        settings={"base": sinusoidal.BASE},
    ),
    "learned": Known(
        title="a learned table",
        equation="3",
        forms={"table": learned.readings},
        weights={"table": RELATIVE},
    ),
    "kerple": Known(
        title="KERPLE",
        equation="Chi et al. 2022",
        forms={"bias": biases.kerple_readings},
        settings={"kind": "log"},
        weights={"r1": ("r1", "bias_p", "p", "a1"), "r2": ("r2", "bias_a", "a", "a2")},
    ),
    "fire": Known(
        title="FIRE",
        equation="Li et al. 2023",
        forms={"bias": biases.fire_readings},
        weights={
            "c": ("c",),
            "threshold": ("threshold", "l", "init_l"),
            "hidden": ("hidden", "w1"),
            "hidden_bias": ("hidden_bias", "b1"),
            "output": ("output", "w2"),
            "output_bias": ("output_bias", "b2"),
        },
    ),
    "deberta": Known(
        title="DeBERTa's disentangled scores",
        equation="10; He et al. 2021",
        forms={"scores": scores.deberta, "buckets": t5.deberta_buckets},
        settings={"clip": 2, "num_buckets": 32, "max_distance": 128},
        weights={
            "position_key": ("pos_key", "position_key", "kr", "rel_k", "k_r"),
            "position_query": ("pos_query", "position_query", "qr", "rel_q", "q_r"),
        },
    ),
    "shaw": Known(
        title="Shaw's relative positions",
        equation="5; Shaw et al. 2018",
        forms={"scores": scores.shaw},
        settings={"clip": 2},
        weights={"key_positions": (*RELATIVE, "a", "ak", "a_k", "key_positions", "relative_k")},
    ),
    "transformer_xl": Known(
        title="Transformer-XL's scores",
        equation="7; Dai et al. 2019",
        forms={"scores": scores.transformer_xl, "shift": scores.shift_readings},
        weights={
            "r": ("r", "rk", "r_head_k", "rel", "pos_emb", "r_k"),
            "u": ("u", "r_w_bias", "bias_u", "pos_bias_u"),
            "v": ("v", "r_r_bias", "bias_v", "pos_bias_v"),
        },
    ),
    "tupe": Known(
        title="TUPE's scores",
        equation="9; Ke et al. 2021",
        forms={"scores": scores.tupe},
        weights={
            "position_query": ("pq", "pos_q", "position_query", "p_q"),
            "position_key": ("pk", "pos_k", "position_key", "p_k"),
        },
    ),
    "cope": Known(
        title="CoPE",
        equation="Golovneva et al. 2024",
        forms={"scores": scores.cope},
        settings={"p_max": 4},
        weights={"position": ("pos_emb", "position", "e", "table")},
    ),
    "rope": Known(
        title="RoPE in scores",
        equation="16",
        forms={"scores": scores.rope},
        settings={"base": 10_000.0},
    ),
    "pope": Known(
        title="PoPE",
        equation="2509.10534",
        forms={"scores": scores.pope},
        settings={"base": 10_000.0},
        weights={"delta": ("delta", "learned_bias", "phase_bias")},
    ),
    "nope": Known(title="scores without positions", equation="2", forms={"scores": scores.nope}),
}
