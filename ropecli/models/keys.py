"""The keys of a config.json, each under all of its names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.architectures import Architecture
from ropecli.names import quote
from ropecli.numbers import number

#: The newest name of a key, and the older ones that mean the same.
ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("d_model", "n_embd", "embed_dim", "dim", "model_dim"),
    "num_attention_heads": (
        "n_heads",
        "n_head",
        "num_heads",
        "attention_heads",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "encoder_num_attention_heads",
        "decoder_num_attention_heads",
        "speech_encoder_attention_heads",
    ),
    "num_hidden_layers": ("n_layers", "n_layer", "num_layers", "depth"),
    "head_dim": ("kv_channels", "attention_head_dim", "head_size"),
    "max_position_embeddings": (
        "n_positions",
        "max_sequence_length",
        "max_seq_len",
        "seq_length",
        "n_ctx",
        "max_source_positions",
    ),
    "rope_theta": (
        "rotary_emb_base",
        "rotary_embedding_base",
        "rope_base",
        "rope_embedding_base",
        "rope_freq_constant",
    ),
    "partial_rotary_factor": ("rotary_pct", "rotary_emb_fraction", "rope_pct"),
    "rotary_dim": ("rotary_ndims",),
    "rope_local_base_freq": ("rope_local_theta", "swa_rope_theta"),
    "sliding_window_pattern": ("global_attn_every_n_layers",),
}
#: Keys that hold the scaling keys of a config.json, in the order in which Transformers looks.
HOLDERS = ("rope_scaling", "rope_parameters")
#: Keys that only models with a rotary embedding have.
ROTARY_KEYS = (
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rope_ratio",
    "rope_local_base_freq",
    "global_rope_theta",
    "layer_rope_theta",
    "partial_rotary_factor",
    "rotary_dim",
    "qk_rope_head_dim",
    *ALIASES["rope_theta"],
    *ALIASES["partial_rotary_factor"],
    *ALIASES["rotary_dim"],
)
#: Keys that the code of some architectures reads, as the table says, and that of the others not.
OF_SOME = frozenset(
    (
        *(
            key
            for name in ("rope_theta", "partial_rotary_factor", "head_dim", "rope_local_base_freq")
            for key in ALIASES[name]
        ),
        "rotary_dim",
        *ALIASES["rotary_dim"],
        "alpha",
        "global_rope_theta",
        "layer_rope_theta",
        "local_rope_theta",
        "no_rope_layers",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "rope_interleave",
        "rope_local_base_freq",
        "rope_ratio",
        "rope_scaling_layers",
        "rotary_emb_interleaved",
    )
)
#: Keys where null overrides the default: all of the head, or its share of hidden_size.
NULL_COUNTS = ("head_dim", "partial_rotary_factor")
CONTEXT, ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"
SHARE = "partial_rotary_factor"
BY_ORIGINAL = ("yarn", "longrope", "llama3")  #: Rope types that scale by an original length.
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"  #: Of layers.
MOST_LAYERS = 65_536
LARGEST_HEAD = 1 << 16  #: A hundred times any model's; larger tables take seconds.
#: Kinds of layers in a file, all parts together; real files have up to six.
MOST_KINDS = 64


def names_of(key: str) -> tuple[str, ...]:
    """Return all names of a key, the newest first."""
    return key, *ALIASES.get(key, ())


def check_kind_count(kinds: Collection[object]) -> None:
    """Refuse a file whose every layer would be a kind of its own."""
    if len(kinds) > MOST_KINDS:
        raise ArgumentError(
            f"a file may have at most {MOST_KINDS} kinds of layers, got {len(kinds):,}"
        )


class Keys:
    """The keys of one part of a file, with the defaults of its architecture behind them."""

    def __init__(self, config: Mapping[str, Any], architecture: Architecture) -> None:
        self.config = config
        self.architecture = architecture
        #: Keys that the architecture's code does not read.
        self.unread_keys = architecture.unread(OF_SOME)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of its architecture."""
        return self.architecture.facts

    @property
    def scaling(self) -> Any:
        """Return the file's scaling keys, of the older form first."""
        return self.own("rope_scaling") or self.own("rope_parameters")

    def find(self, name: str) -> tuple[str, Any] | None:
        """Return the key that gives a value, and the value.

        The file comes first, then the architecture's defaults. A null in the file is skipped,
        except under the keys of NULL_COUNTS.
        """
        ignored = self.unread_keys
        names = names_of(name)
        for key in names:
            if self.config.get(key) is not None and key not in ignored:
                return key, self.config[key]
        if name in NULL_COUNTS and name in self.config and name not in ignored:
            return None
        for key in names:
            if self.architecture.defaults.get(key) is not None:
                return key, self.architecture.defaults[key]
        return None

    def read_name(self, name: str) -> str:
        """Return the first of a key's names that the architecture's code reads."""
        return next((key for key in names_of(name) if key not in self.unread_keys), name)

    def own(self, key: str) -> Any:
        """Return the file's own value of a key, or None."""
        return None if key in self.unread_keys else self.config.get(key)

    def get(self, name: str) -> Any:
        """Return the value under any of a key's names, or None."""
        member = self.find(name)
        return None if member is None else member[1]

    def integer(self, name: str, *, least: int = 1, most: int = 2**53) -> int | None:
        """Return an integer, given as one or as a whole float; None without such a key."""
        member = self.find(name)
        if member is None:
            return None
        key, value = member
        integer = int(value) if isinstance(value, float) and value.is_integer() else value
        if (
            isinstance(integer, bool)
            or not isinstance(integer, int)
            or not least <= integer <= most
        ):
            raise ArgumentError(
                f"{key} must be an integer from {least} to {most}, got {quote(value)}"
            )
        return integer

    def real(self, name: str) -> float | None:
        """Return a number; None without such a key."""
        member = self.find(name)
        return None if member is None else number(*member)

    def per_layer(self, name: str) -> list[Any]:
        """Return a list with an entry for each layer; an empty one without such a key."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MOST_LAYERS:
            raise ArgumentError(
                f"{name} must be a list of at most {MOST_LAYERS} entries, got {quote(value)}"
            )
        if self.facts.get("mlp_blocks") and "mlp" in value:
            return value[::2]  # attention and mlp take turns
        return value

    def quotient(self, rule: str) -> int:
        """Evaluate a rule such as "hidden_size // num_attention_heads"."""
        names = rule.split(" // ")
        terms = [int(name) if name.isdigit() else self.integer(name) for name in names]
        missing = [name for name, value in zip(names, terms, strict=True) if value is None]
        if missing:
            raise ArgumentError(f"the head dim needs {rule}; missing: {', '.join(missing)}")
        size = terms[0] or 0
        for divisor in terms[1:]:
            size //= divisor or 1
        if size < 1:
            raise ArgumentError(
                f"the head dim must be at least 1, got {rule} = {' // '.join(map(str, terms))}"
            )
        return size
