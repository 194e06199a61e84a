"""Meanings of the names that implementations use for vectors, positions, sizes, ..."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ropecli.checks.implementation.convention import FREQS as FORMS_OF_FREQS

#: Annotation of a parameter whose name is that of a role.
ROLE = "a role"
#: An axis of sequences, as annotations and docstrings write it.
OF_BATCH = re.compile(r"\b(batch|batch_size|bsz|B)\b|[(\[] *b *[,)\]]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VECTORS = _words(
    "x q query queries t tensor input inputs hidden_states states xq q_states query_states qk vec "
    "vectors emb embeddings xs data q_or_k query_layer input_tensor x_in feats features xqk xt u "
    "query_or_key tensor_in inp input_ token tokens hidden arr array vector q_ qs image_q a y z"
)
#: Vectors in the first place, and anything elsewhere.
LETTERS = _words("t u y z a arr array vector")
QUERIES = _words("q query queries xq q_states query_states query_layer q_ qs")
STACKED = _words("qkv packed_qkv mixed_qkv qkv_states qkv_packed query_key_value")
KEYS = _words("k key keys xk k_states key_states key_layer k_ ks")
VALUES = _words("v value values value_states value_layer v_ xv")
POSITIONS = _words(
    "positions position_ids pos position pos_ids input_pos position_id token_positions pos_idx "
    "cache_position position_indices positions_ids segment_pos segment_positions ids indices idx "
    "pos_id seq_pos coords coordinates m index position_index token_pos token_indices t_pos grid"
)
#: Those that are short for an embedding of positions as well.
EMBEDDED = _words("pos position m index t_pos")
OFFSETS = _words(
    "offset start start_pos past past_len past_length past_key_value_length cache_len "
    "past_key_values_length kv_offset seq_offset seqlen_offset seqlen_offsets pos_offset offsets "
    "start_position position_offset cache_offset start_index begin step first_position cur_pos "
    "position_start start_positions n_past num_past past_seq_len"
)
LENGTHS = _words(
    "seq_len seqlen length seq_length max_len n_ctx sequence_length n_tokens num_tokens t_len "
    "kv_seq_len seq"
)
LONGEST = _words(
    "max_seq_len max_position_embeddings max_position max_positions context_length max_seqlen "
    "max_sequence_length max_length context max_seq_length max_trained_positions num_positions "
    "block_size end max_context seq_len_max max_pos max_context_len cache_len_max ctx_len"
)
BASES = _words(
    "base theta rope_theta rope_base rotary_base freq_base rotary_emb_base freqs_base "
    "max_wavelength base_frequency max_period rope_freq_base base_freq frequency_base period "
    "max_timescale"
)
DIMS = _words(
    "dim head_dim d d_head rotary_dim head_size dims size rope_dim dim_head embed_dim n_elem "
    "kv_channels embedding_size embedding_dim hidden_size rotary_ndims head_dimension hidden_dim "
    "rot_dim rotary_dims rotary_width width head_width d_k dim_per_head attention_head_size "
    "attention_head_dim embedding_dims proj_width d_model encoding_dim d_kv d_head_qk "
    "qk_rope_head_dim"
)
#: Coordinates of a head for each axis of positions, and sizes of a grid of positions.
AXES_DIMS = _words("axes_dim axes_dims axis_dims axis_dim rope_axes_dim axes_dims_rope")
GRIDS = _words("feat_shape grid_size grid_shape spatial_shape feat_size")
SEQUENCE_AXES = _words("seq_dim sequence_dim seq_axis sequence_axis time_dim")
HEADS = _words("n_heads num_heads n_head num_attention_heads nheads num_q_heads heads")
KEY_HEADS = _words("n_kv_heads num_kv_heads num_key_value_heads n_head_kv kv_heads num_heads_k")
BOUNDARIES = _words("cu_seqlens cu_seqlens_q cu_seq_lens cum_seqlens seq_offsets cu_seqlen")
OUTPUTS = _words("out output dst result out_tensor")
CONFIGURATIONS = _words("config config_ cfg conf model_config hparams")
#: Ends of names of configurations that may be None, such as that of a scaling.
OF_CONFIGURATIONS = ("_config", "_cfg", "_hparams")
DTYPES = _words("dtype compute_dtype param_dtype cache_dtype")
HEAD_AXES = _words("unsqueeze_dim expansion_axis head_dim_axis heads_axis head_axis")
#: Flags that say the layout: true of halves, or true of neighbours.
HALVES = _words("is_neox_style is_neox neox neox_style half rotate_half rope_half")
NEIGHBOURS = _words(
    "interleaved interleave traditional rotary_interleaved is_interleaved rope_interleaved"
)
#: Numbers that change nothing, where a function insists on one.
NEUTRAL = {
    "1.0": _words(
        "scale scaling_factor factor mscale attention_scaling scaling linear_factor fraction "
        "partial_rotary_factor rotary_pct rotary_fraction min_timescale"
    ),
    "False": _words("causal local inplace inverse conj conjugate training"),
    "None": _words("device mask attention_mask rope_scaling"),
    "0": _words("prefix num_prefix_tokens prefix_len num_prefix prefix_length"),
}
PAIRS = _words(
    "position_embeddings cos_sin freqs_cos_sin sincos cossin rope_cos_sin cos_and_sin cos_sin_pair"
)
CACHES = _words("cos_sin_cache cos_sin_cached")
#: Cosines and sines side by side in one table.
SIDE_BY_SIDE = _words("sinusoidal_pos sinusoidal sinu_pos sin_cos sinu emb rot_emb")
FREQS = (
    _words(
        "freqs freq freqs_cis rope rope_cache rotary_pos_emb rope_emb rotary_emb pe pos_emb angles "
        "angle rotary_freqs image_rotary_emb freq_cis freqs_ci position_embedding "
        "rotary_embeddings rotary pos_embed emb_pos cis phases rotation rotations rot rot_mats "
        "rotary_embedding rope_freqs freqs_pairs frequencies phase thetas ropes rope_embed embs "
        "rotary_emb_freqs r"
    )
    | SIDE_BY_SIDE
)
INVERSES = _words("inv_freq inv_freqs inverse_freq inverse_frequencies")
#: Never positions, whatever place they have: numbers that say how, not where.
NUMBERS = (
    BASES
    | DIMS
    | SEQUENCE_AXES
    | HEAD_AXES
    | LONGEST
    | HALVES
    | NEIGHBOURS
    | DTYPES
    | _words(
        "axis dropout eps use_real head_first ntk_alpha alpha beta heads_first layer layer_idx"
    )
)
#: Fields that a model of one head and one layer has, as expressions of the sizes.
FIELDS = {
    **dict.fromkeys(
        (
            "num_attention_heads",
            "num_heads",
            "n_heads",
            "n_head",
            "num_key_value_heads",
            "n_kv_heads",
            "num_layers",
            "num_hidden_layers",
            "n_layers",
            "n_layer",
        ),
        "1",
    ),
    "rope_parameters": "{'rope_type': 'default', 'rope_theta': base}",
}


def roles(name: str, place: int, annotation: str = "") -> tuple[str, ...]:
    """Return what a parameter may mean, most likely first: names of roles, or of tuples of them."""
    if annotation == ROLE:
        return (name,)
    word = name.lower().strip("_")
    tables = _tables(word, place, annotation)
    if tables:
        return tables
    is_number = annotation in {"int", "builtins.int"}
    offsets: tuple[str, ...] = ("offset", "offsets", "positions")
    if OF_BATCH.search(annotation):
        offsets = ("offsets",)
    if word in LETTERS:
        return ("x", "positions", "offset", "freqs")
    embedded = ("freqs",) if word in EMBEDDED else ()
    table = (
        (VALUES, ("x",) if place == 0 else ("values",)),
        (VECTORS, ("q",) if word in QUERIES else ("x",)),
        (STACKED, ("qkv",)),
        (KEYS, ("k",)),
        (POSITIONS, ("offset", "positions") if is_number else ("positions", "offset", *embedded)),
        (OFFSETS, ("offset",) if is_number else offsets),
        (LENGTHS, ("length",)),
        (LONGEST, ("context",)),
        (SEQUENCE_AXES, ("sequence axis",)),
        (HEAD_AXES, ("heads axis",)),
        (INVERSES, ("inv_freq",)),
        (AXES_DIMS, ("axes_dims",)),
        (GRIDS, ("grid",)),
        (DIMS, ("rotary_dim", "head_dim") if "rot" in word else ("head_dim", "rotary_dim")),
        (BASES, ("base",)),
        (HALVES, ("halves",)),
        (NEIGHBOURS, ("neighbours",)),
        (DTYPES, ("dtype",)),
        (HEADS, ("heads",)),
        (KEY_HEADS, ("key_heads",)),
        (BOUNDARIES, ("cu_seqlens", "None")),
        (OUTPUTS, ("out",)),
        (CONFIGURATIONS, ("config", "None")),
    )
    for words, meant in table:
        if word in words:
            return meant
    neutral = tuple(number for number, words in NEUTRAL.items() if word in words)
    if word.endswith(OF_CONFIGURATIONS):
        neutral = ("None", "config")
    if neutral or word in NUMBERS:
        return neutral
    # A name that says nothing: the first one is the vectors, and others their positions.
    places: tuple[str, ...]
    places = ("offset",) if is_number else ("positions", "offset", "freqs", "(cos, sin)")
    places += ("None",) * ("None" in annotation or "Optional" in annotation)
    return ("x", *places) if place == 0 else places


def _tables(word: str, place: int, annotation: str) -> tuple[str, ...]:
    """Return what a parameter may mean that is named after cosines, sines or frequencies."""
    word = word.replace("cosine", "cos").replace("sine", "sin")
    if word in PAIRS:
        both = ("(cos, sin)", "(sin, cos)")
        return (*(both[::-1] if word.startswith("sin") else both), "freqs")
    if word in CACHES:
        return ("cos_sin_cache", "freqs")
    if word not in SIDE_BY_SIDE:
        for table, other in (("cos", "sin"), ("sin", "cos")):
            if table in word and other not in word:
                cached = f"{table}_cache"
                return (cached, table) if "cache" in word else (table, cached)
    if word in FREQS and (place > 0 or word not in VECTORS):
        if "tuple[" in annotation.lower():
            return ("(cos, sin)", "freqs", "freqs_cache")
        return ("freqs", "(cos, sin)", "freqs_cache")
    return ()


def freqs_kinds(name: str, annotation: str) -> tuple[str, ...]:
    """Return the forms of frequencies, most likely first, that a parameter may want."""
    word = name.lower()
    first: tuple[str, ...]
    if word in SIDE_BY_SIDE:
        first = ("sin then cos", "cos then sin", "angles")
    elif "cis" in word or "complex" in annotation.lower():
        first = ("complex", "matrix", "cos sin", "cos then sin")
    elif "cache" in word or "pairs" in word:
        first = ("cos sin", "cos then sin", "complex")
    elif word in {"pe", "rope", "rot", "rotation", "rot_mats"}:
        first = ("matrix", "angles", "complex", "cos sin")
    else:
        first = ("angles", "complex", "matrix", "cos sin")
    return tuple(dict.fromkeys([*first, *FORMS_OF_FREQS]))


class Configuration:
    """Object with sizes as attributes and as items, by the names that models use."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        """Take the sizes by their names in calls."""
        self._sizes = dict(sizes)

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return eval(FIELDS[name], dict(self._sizes))
        meant = "head_dim" if name == "n_embd" else size_of(name)
        if meant in self._sizes:
            return self._sizes[meant]
        if meant in NEUTRAL and not name.startswith("_"):
            return eval(meant)
        raise AttributeError(f"a configuration of sizes has no {name!r}")

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a size, or the default."""
        return getattr(self, name, default)


def size_of(name: str) -> str:
    """Return the size that a parameter means where an instance is made; empty if it is none."""
    meant = next(iter(roles(name, 1)), "")
    return {"length": "context", "positions": ""}.get(meant, meant)
