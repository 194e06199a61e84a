"""The calls that a signature suggests, for code of a positional encoding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ropecli.checks.encoding.asked import ROLES
from ropecli.checks.encoding.known import Known
from ropecli.checks.implementation.calling import vocabulary as words
from ropecli.checks.implementation.calling.describe import Description, Parameter
from ropecli.checks.implementation.calling.expressions import MAIN, likely_first
from ropecli.checks.implementation.convention import Convention

MOST = 400  #: Calls that are tried.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LENGTHS = (
    words.LENGTHS
    | words.LONGEST
    | _words(
        "n_position n_positions num_positions num_embeddings num_pos n_pos max_len maxlen size n t "
        "max_sequence_length sequence_len n_seq num_tokens length seq_len_q_k num_timescales_len "
        "max_source_positions seq"
    )
)
QUERIES = _words(
    "query_length qlen q_len query_len i seq_len_q tgt_len target_length n_q len_q q_length "
    "seqlen_q query_size num_queries lq tgt_length q_seq_len rows"
)
KEYS = _words(
    "key_length klen k_len key_len j seq_len_k src_len kv_len k_length n_k len_k seqlen_k key_size "
    "num_keys lk max_seq_len source_length kv_length k_seq_len src_length cols"
)
RELATIVE = _words(
    "relative_position relative_positions rel_pos rel relative_pos rel_position delta relpos "
    "relative_position_matrix rel_positions distance distances dist"
)
HEADS = words.HEADS | _words("h nh num_head nheads head_count total_num_heads n_head heads_count")
DIMS = words.DIMS | _words("channels num_pos_feats n_embd feature_size out_dim dims c num_channels")
BUCKETS = _words(
    "num_buckets relative_attention_num_buckets n_buckets buckets bucket_size nbuckets"
)
FURTHEST = _words("max_distance relative_attention_max_distance max_dist max_relative_distance")
CLIPS = _words("clip max_relative_position k max_rel max_clip clip_distance max_k att_span")
GRIDS = _words("grid_size grid side image_size_in_patches")
SHAPES = _words("shape grid_shape hw size_2d feat_shape spatial_shape")
HEIGHTS = _words("height h rows n_rows grid_h")
WIDTHS = _words("width w cols n_cols grid_w")
MASKS = _words("attention_mask mask padding_mask")
IDS = _words("input_ids ids input tokens input_tokens")
BATCHES = _words("batch batch_size bsz bs b")
VECTORS = words.VECTORS | _words("inputs_embeds seq_embeds input_embeds tensor embeds")
NONE = _words("device mask attention_mask past_key_values cache")
ZERO = _words("past past_key_values_length past_length offset start query_offset padding_idx")

TABLES = {"table", "grid"}
KEYS_AND_QUERIES = words.QUERIES | words.KEYS


def roles(name: str, known: Known, form: str) -> list[str]:
    """Return what a parameter may mean where code returns a form, most likely first."""
    word = name.lower().strip("_")
    parts = {word, *word.split("_")}
    found = [weight for weight, named in known.weights.items() if parts & {weight, *named}]
    if word in KEYS_AND_QUERIES:
        found = []
    of_table = form in TABLES
    meanings: list[tuple[bool, frozenset[str], list[str]]] = [
        (form in {"scores", "buckets", "bias"}, words.QUERIES, ["q"]),
        (form in {"scores", "buckets", "bias"}, words.KEYS, ["k"]),
        (form == "shift", words.VECTORS, ["by_distance", "by_distance_first"]),
        (form == "grid", _words("shape"), ["(batch, dim, height, width)"]),
        (not of_table, QUERIES, ["queries"]),
        (not of_table, KEYS, ["keys"]),
        (form == "grid", GRIDS, ["grid"]),
        (form == "grid", SHAPES, ["shape", "grid"]),
        (form == "grid", HEIGHTS, ["height"]),
        (form == "grid", WIDTHS, ["width"]),
        (True, BUCKETS, ["num_buckets"]),
        (True, FURTHEST, ["max_distance"]),
        (form == "buckets", _words("max_position"), ["max_distance"]),
        (True, _words("bidirectional bidir"), ["bidirectional"]),
        (True, words.BASES | _words("temperature"), ["base"]),
        (not of_table, RELATIVE, ["distance" if "clip" in known.settings else "relative"]),
        (not of_table, HEADS, ["heads"]),
        (not of_table, MASKS, ["mask"]),
        (not of_table, _words("pos_i q_pos query_pos query_positions q_positions pos_q"), ["m"]),
        (not of_table, _words("pos_j k_pos key_pos key_positions k_positions pos_k"), ["n"]),
        ("clip" in known.settings, CLIPS, ["clip"]),
        (True, words.INVERSES, ["inv_freq"]),
        (of_table, words.OUTPUTS, ["out"]),
        (
            True,
            words.POSITIONS | _words("timesteps pos_seq pos_inds"),
            ["positions", "length", "positions[None]"],
        ),
        (True, LENGTHS, ["length", "positions"]),
        (True, DIMS, ["dim"]),
        (of_table, IDS, ["ids", "positions", "x"]),
        (of_table, VECTORS, ["x", "positions", "1.0 * positions"]),
        (True, BATCHES, ["batch"]),
        (True, words.DTYPES, ["dtype"]),
        (True, NONE, ["None"]),
        (True, ZERO, ["0"]),
    ]
    for fits, names, meant in meanings:
        if fits and word in names:
            found += [role for role in meant if role not in found]
    if not found:
        found = [name for name in known.settings if word in (name, f"alibi_{name}")]
    return found


#: What a required parameter of no known name may be, by what code returns.
UNKNOWN = {
    "table": ["length", "dim", "positions", "x"],
    "grid": ["dim", "grid", "height", "width"],
    "bias": ["length", "heads", "queries", "keys", "relative"],
    "slopes": ["heads"],
    "buckets": ["relative"],
    "scores": ["q", "k"],
    "shift": ["by_distance", "by_distance_first"],
}
#: Optional parameters that are given, so that a size is not the code's own.
OPTIONAL = {"heads", "dim", "keys", "queries", "length", "positions", "x", "ids", "dtype"}
#: What each call must name, one of each group.
NEEDED: dict[str, tuple[set[str], ...]] = {
    "table": (),
    "grid": ({"grid", "height", "shape"},),
    "bias": (
        {"length", "queries", "keys", "relative", "distance", "m", "mask", "q", "x", "positions"},
    ),
    "slopes": ({"heads"},),
    "shift": ({"by_distance", "by_distance_first"},),
    "buckets": ({"q", "relative", "distance", "m", "queries", "length", "positions"},),
    "scores": ({"q"}, {"k"}),
}


@dataclass(frozen=True, kw_only=True)
class Spelled:
    """A call of code, and what its author's own defaults say."""

    text: str
    form: str
    defaults: Mapping[str, Any] = field(default_factory=dict)  #: Settings, by name.
    guessed: bool = False  #: Whether a parameter has a name that says nothing.

    @property
    def names(self) -> list[str]:
        """The names that the call mentions."""
        return sorted(Convention(call=self.text).names)


def calls(
    description: Description,
    known: Known,
    form: str,
    init: Mapping[str, Any],
    given: Set[str] = frozenset(),
) -> Iterator[Spelled]:
    """Yield calls, likely ones first; those of settings that are given hand these over."""
    name, of_it = description.name, _Arguments(known, form, init, given)
    guessed = description.kind != "instance" and of_it.say_nothing(description.parameters)
    if description.kind == "function":
        for call in of_it.calls(name, description.parameters, {}):
            yield replace(call, guessed=guessed or not call.names)
        return
    constructions, settings = [""], dict[str, Any]()
    if description.kind == "class":
        words, settings = of_it.choose(description.parameters, made=True)
        constructions = [f"({', '.join(reading)})" for reading in _likely(words)]
    of_method = _Arguments(known, form, {}, given)
    for made in constructions:
        for method in sorted(description.methods, key=lambda each: each not in MAIN):
            itself = method in MAIN and description.is_callable
            called = f"{name}{made}" if itself else f"{name}{made}.{method}"
            parameters = description.methods[method]
            # What other methods return may be something else.
            unknown = guessed or not itself or of_method.say_nothing(parameters)
            for call in of_method.calls(called, parameters, settings):
                yield replace(call, guessed=unknown)


def _likely(choices: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the arguments of calls, likely ones first, without empty ones."""
    for chosen in itertools.islice(likely_first(choices), MOST):
        yield [*filter(None, chosen)]


class _Arguments(NamedTuple):
    """The values for the parameters of code that returns a form of an encoding."""

    known: Known
    form: str
    init: Mapping[str, Any]  #: Keyword arguments that are given.
    given: Set[str]  #: Settings that are given.

    def say_nothing(self, parameters: Sequence[Parameter] | None) -> bool:
        """Return True if a required parameter has a name that says nothing."""
        needed = [
            parameter
            for parameter in parameters or ()
            if parameter.required and parameter.name not in self.init
        ]
        return any(not roles(parameter.name, self.known, self.form) for parameter in needed)

    def calls(
        self, called: str, parameters: Sequence[Parameter] | None, settings: Mapping[str, Any]
    ) -> Iterator[Spelled]:
        """Yield calls of an expression, of whose instance the defaults gave some settings."""
        choices, own = self.choose(parameters, made=False)
        for arguments in _likely(choices):
            words = [argument.partition("=")[2] or argument for argument in arguments]
            if any(words.count(role) > 1 for role in {*words} & ROLES.keys()):
                continue
            text = f"{called}({', '.join(arguments)})"
            spelled = Spelled(text=text, form=self.form, defaults={**settings, **own})
            names = {*spelled.names}
            alone = "ids" not in names or not names & {"x", "positions", "length"}
            if all(group & names for group in NEEDED[self.form]) and alone:
                yield spelled

    def choose(
        self, parameters: Sequence[Parameter] | None, *, made: bool
    ) -> tuple[list[list[str]], dict[str, Any]]:
        """Return what may stand for each parameter, and the settings that defaults give."""
        choices: list[list[str]] = []
        settings: dict[str, Any] = {}
        every = [p for p in parameters or () if p.kind not in {"VAR_POSITIONAL", "VAR_KEYWORD"}]
        for parameter in every:
            meant = roles(parameter.name, self.known, self.form)
            setting = next((role for role in meant if role in self.known.settings), None)
            if parameter.name in self.init:
                choices.append([f"{parameter.name}={self.init[parameter.name]!r}"])
                settings |= {setting: self.init[parameter.name]} if setting else {}
            elif parameter.required:
                by_name = f"{parameter.name}=" if parameter.kind == "KEYWORD_ONLY" or made else ""
                usable = meant or [*UNKNOWN[self.form], *self.known.weights]
                choices.append([by_name + role for role in usable])
            elif setting in self.given:
                choices.append([f"{parameter.name}={setting}"])
            elif setting:
                settings |= (
                    {setting: parameter.default}
                    if isinstance(parameter.default, int | float)
                    else {}
                )
                choices.append([""])
            else:
                optional = [f"{parameter.name}={role}" for role in meant if role in OPTIONAL]
                choices.append([*optional, ""])
        own = {parameter.name for parameter in every}
        choices += [[f"{key}={value!r}"] for key, value in self.init.items() if key not in own]
        return choices, settings
