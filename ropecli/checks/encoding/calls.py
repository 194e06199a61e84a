"""The calls that a signature suggests, for code of a positional encoding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

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
            found += [each for each in meant if each not in found]
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
    name = description.name
    guessed = description.kind != "instance" and _says_nothing(
        description.parameters, known, form, init
    )
    if description.kind == "function":
        for each in _of(name, description.parameters, known, form, init, {}, given):
            yield replace(each, guessed=guessed or not each.names)
        return
    for made, settings in _constructions(description, known, form, init, given):
        order = sorted(description.methods, key=lambda each: each not in MAIN)
        for method in order:
            itself = method in MAIN and description.is_callable
            called = made if itself else f"{made}.{method}"
            parameters = description.methods[method]
            # What other methods return may be something else.
            unknown = guessed or not itself or _says_nothing(parameters, known, form, {})
            for each in _of(called, parameters, known, form, {}, settings, given):
                yield replace(each, guessed=unknown)


def _says_nothing(
    parameters: Sequence[Parameter] | None, known: Known, form: str, init: Mapping[str, Any]
) -> bool:
    """Return True if a required parameter has a name that says nothing."""
    required = [each for each in parameters or () if each.required and each.name not in init]
    return any(not roles(each.name, known, form) for each in required)


def _constructions(
    description: Description,
    known: Known,
    form: str,
    init: Mapping[str, Any],
    given: Set[str],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield expressions that make an instance, and the settings of its defaults."""
    if description.kind != "class":
        yield description.name, {}
        return
    choices, settings = _choices(description.parameters, known, form, init, given, made=True)
    for chosen in itertools.islice(likely_first(choices), MOST):
        yield f"{description.name}({', '.join(filter(None, chosen))})", settings


def _of(
    called: str,
    parameters: Sequence[Parameter] | None,
    known: Known,
    form: str,
    init: Mapping[str, Any],
    settings: Mapping[str, Any],
    known_settings: Set[str],
) -> Iterator[Spelled]:
    choices, own = _choices(parameters, known, form, init, known_settings, made=False)
    for chosen in itertools.islice(likely_first(choices), MOST):
        given = [each.partition("=")[2] or each for each in chosen if each]
        if len(set(given)) < len(given) and any(
            given.count(each) > 1 for each in set(given) & ROLES.keys()
        ):
            continue
        spelled = Spelled(
            text=f"{called}({', '.join(filter(None, chosen))})",
            form=form,
            defaults={**settings, **own},
        )
        names = {*spelled.names}
        alone = "ids" not in names or not names & {"x", "positions", "length"}
        if all(group & names for group in NEEDED[form]) and alone:
            yield spelled


def _choices(
    parameters: Sequence[Parameter] | None,
    known: Known,
    form: str,
    init: Mapping[str, Any],
    settings_given: Set[str],
    *,
    made: bool,
) -> tuple[list[list[str]], dict[str, Any]]:
    """Return what may stand for each parameter, and the settings that defaults give."""
    choices: list[list[str]] = []
    settings: dict[str, Any] = {}
    rest = {"VAR_POSITIONAL", "VAR_KEYWORD"}
    every = [each for each in parameters or () if each.kind not in rest]
    for each in every:
        meant = roles(each.name, known, form)
        setting = next((role for role in meant if role in known.settings), None)
        if each.name in init:
            choices.append([f"{each.name}={init[each.name]!r}"])
            if setting:
                settings[setting] = init[each.name]
            continue
        by_name = f"{each.name}=" if each.kind == "KEYWORD_ONLY" or made else ""
        if each.required:
            usable = meant or [*UNKNOWN[form], *known.weights]
            choices.append([by_name + role for role in usable])
            continue
        if setting in settings_given:
            choices.append([f"{each.name}={setting}"])
            continue
        if setting:
            if isinstance(each.default, int | float):
                settings[setting] = each.default
            choices.append([""])
            continue
        given = [f"{each.name}={role}" for role in meant if role in OPTIONAL]
        choices.append([*given, ""])
    known_names = {each.name for each in every}
    choices += [[f"{key}={value!r}"] for key, value in init.items() if key not in known_names]
    return choices, settings
