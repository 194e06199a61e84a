"""Trace of a config.json: its model, built by Transformers at small width, watched as it runs."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ropecli.arrays import evenly_spread
from ropecli.checks.trace.verdict import Trace, check_rotates, judge, text_layers
from ropecli.checks.trace.watch import CACHES, watch
from ropecli.errors import ArgumentError, FileError, RopecliError
from ropecli.models.load import check_length, compute, describe
from ropecli.models.model import Model
from ropecli.numbers import at_least

PREFILL, CHUNKS, STEPS = 40, (9, 7), 8  #: Positions of the calls, other than the heads.
FURTHEST = 32_768  #: Positions up to which a table is looked at, where no length is asked for.
MOST = 200_000_000  #: Parameters of a model that is built.
TIMEOUT = 300.0  #: Seconds for building and running a model.
#: Values that the library cannot run without, and that some of its defaults lack.
NEEDED = {"num_experts_per_tok": 2, "vocab_size": 64}
HEADS = 4  #: Of the small model; those of keys are as many, or one.
#: Widths that RoPE does not depend on, and their sizes in the small model; a smaller one is kept.
SIZES = {
    r"vocab_size": 64,
    r"intermediate_size|ffn_dim|ffn_hidden_size|^d_ff$|^n_inner$": 32,
    r"^(n|num|moe_num|num_local|n_routed)_?(routed_|local_)?experts$|^zero_expert_num$": 4,
    r"experts_per_tok|top_?k_experts|^moe_?(top_?)?k$": 2,
    r"^(n|topk|num_expert)_groups?$|^topk_group$": 1,
    r"linear_num_(key|value)_heads": 2,
    r"^encoder_hash_byte_group_vocab$": 64,
}
_OWN = "watch a model of your own: ropecli.watch"
_HEADS = re.compile(r"attention_heads$|^n_heads?$|^num_heads$")
_KEY_HEADS = re.compile(r"(key_value|kv)_(n_)?heads$|^kv_n_heads$|multi_query_group_num")
_SPECIAL = re.compile("_token_(id|index)$")


def trace(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    sequence_length: int | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
    progress: Callable[[str], None] | None = None,
) -> Trace:
    """Trace which RoPE the layers of a model really apply, as Transformers builds it.

    The text model of a config.json is built at small width with random weights; what decides RoPE
    is kept. It runs a prefill, chunks and single steps with a cache, and positions far apart.

    Args:
        source: A config.json, as `load_model` takes it.
        sequence_length: Positions in use, for dynamic NTK and LongRoPE.
        seed: Seed of weights and tokens.
        timeout: Seconds for building and running it.
        progress: Takes a line that says what is being done, at the start of each stage.

    Raises:
        ArgumentError: An unusable value, or a model whose queries and keys cannot be seen.
        ArgumentTypeError: An argument of the wrong type.
        FileError: A file that cannot be read, or that the installed Transformers cannot build, or
            no Transformers.
    """
    length = check_length(sequence_length)
    seed = at_least("seed", seed, 0)
    described = describe(source)
    if described.format != "config.json":
        raise FileError(f"trace takes a config.json, got {described.source}")
    end, report = time.monotonic() + timeout, progress or (lambda _: None)
    report("importing Transformers")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise FileError(
            f"trace needs PyTorch and Transformers: pip install torch transformers ({error})"
        ) from None
    built = f"Transformers {transformers.__version__}"
    model = compute(described, sequence_length=length)
    check_rotates(model)
    with _quiet(torch), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        report("building the model")
        small = _build(torch, described.source, described.raw, built)

        def stop_late(*_: object) -> None:
            if time.monotonic() > end:
                raise ArgumentError(
                    f"building and running the model took more than {timeout:g} s",
                    "raise `timeout`",
                )

        small.register_forward_pre_hook(stop_late)
        report("running the model")
        with watch(small) as seen, _reporting(f"{built} cannot run", described.source):
            _run(torch, small, model, length)
    report("identifying the rotations")
    verdict = judge(seen, model, source=described.source, built=built)
    own = ("the code that auto_map names",) if "auto_map" in described.raw else ()
    return replace(verdict, skipped=(*verdict.skipped, *own))


@contextlib.contextmanager
def _quiet(torch: Any) -> Iterator[None]:
    """Keep Transformers from logging and warning, and PyTorch to one thread."""
    logger, threads = logging.getLogger("transformers"), torch.get_num_threads()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    torch.set_num_threads(1)  # for so small products, threads mostly wait for each other
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _reporting(failed: str, source: str) -> Iterator[None]:
    """Report an error of foreign code."""
    try:
        yield
    except RopecliError:
        raise
    except Exception as error:
        raise FileError(f"{failed} a small model of {source}: {_line(error)}", _OWN) from None


def _line(error: Exception) -> str:
    """Return the kind of an error and the first line of its text."""
    return " ".join([f"{type(error).__name__}:", *str(error).strip().splitlines()[:1]])[:300]


def _build(torch: Any, source: str, keys: Mapping[str, Any], built: str) -> Any:
    """Build the text model of a config.json at small width, with random weights."""
    from transformers import CONFIG_MAPPING

    model_type = keys.get("model_type")
    if model_type not in CONFIG_MAPPING:
        raise FileError(
            f"{source}: model_type {model_type!r} is unknown to {built}",
            "watch a model with code of its own: ropecli.watch",
        )
    try:
        text = CONFIG_MAPPING[model_type].from_dict(_readable(dict(keys))).get_text_config()
    except Exception as error:  # foreign code
        raise FileError(f"{built} refuses {source}: {_line(error)}") from None
    with _reporting(f"{built} cannot build", source):
        _shrink(text)
        kind = _model_class(text)
        count = 0
        with contextlib.suppress(Exception), torch.device("meta"):  # not every model can
            count = sum(parameter.numel() for parameter in kind(text).parameters())
        if count > MOST:
            raise FileError(
                f"{source}: a small model of it has {count:,} parameters, at most {MOST:,}", _OWN
            )
        model = kind(text).float().eval()
        model.set_attn_implementation("eager")
    return model


def _readable(value: Any) -> Any:
    """Return a value of a file as it is read, but for names of code to download and run."""
    if isinstance(value, dict):
        if value.keys() == {"__float__"}:  # as Transformers saves NaN and infinities
            return float(value["__float__"])
        return {
            key: _readable(item)
            for key, item in value.items()
            if not str(key).lstrip("_").startswith("attn_implementation")  # such as "org/name"
        }
    return [_readable(item) for item in value] if isinstance(value, list) else value


def _model_class(config: Any) -> Any:
    """Return the class of the model that takes tokens by a configuration."""
    from transformers import MODEL_MAPPING, PreTrainedModel

    if type(config) in MODEL_MAPPING:
        model_class = MODEL_MAPPING[type(config)]
        return model_class[0] if isinstance(model_class, tuple) else model_class
    name = type(config).__module__.replace(".configuration_", ".modeling_")
    for value in vars(importlib.import_module(name)).values():
        model = inspect.isclass(value) and issubclass(value, PreTrainedModel)
        matches = model and value.config_class is type(config) and "For" not in value.__name__
        if matches and "input_ids" in inspect.signature(value.forward).parameters:
            return value
    raise LookupError(f"no model of tokens takes a {type(config).__name__}")


def _shrink(config: Any) -> None:
    """Make a configuration small in place, and keep all that decides RoPE, such as head dims."""
    layers = config.to_dict().get("per_layer_config")
    if layers:
        config.per_layer_config = None  # no value of a layer can be set next to it
    hidden, heads = (getattr(config, key, None) for key in ("hidden_size", "num_attention_heads"))
    parts = {
        k: v for k, v in vars(config).items() if k.endswith("_config") and hasattr(v, "to_dict")
    }
    for name, value in list(vars(config).items()):
        if name in parts:
            if name != "codec_config":  # of a model that makes sound, and takes no tokens
                _shrink(value)
        elif _size(name, value, heads) != value:
            setattr(config, name, _size(name, value, heads))
    if isinstance(hidden, int) and isinstance(heads, int) and heads > HEADS:
        width = HEADS * (hidden // heads)
        has_head_dim = isinstance(getattr(config, "head_dim", None), int)  # then the width is free
        config.hidden_size = -(-width // 16) * 16 if has_head_dim else width
        for part in parts.values():
            if getattr(part, "hidden_size", None) == hidden:
                part.hidden_size = config.hidden_size
        if hasattr(config, "attention_hidden_size"):  # that of two layers side by side
            times = config.attention_hidden_size // hidden
            config.attention_hidden_size = times * config.hidden_size
    for count, size in (("mamba_n_heads", "mamba_d_head"), ("n_mamba_heads", "mamba_headdim")):
        if getattr(config, count, None) and getattr(config, "mamba_d_ssm", None) is None:
            inner = config.mamba_expand * config.hidden_size
            setattr(config, count, int(inner // getattr(config, size)))
    if layers:
        config.per_layer_config = {
            int(index): {name: _size(name, value, heads) for name, value in layer.items()}
            for index, layer in layers.items()
        }


def _size(name: str, value: Any, heads: Any) -> Any:
    """Return the value that a key has in the small model."""
    if value is None:
        return NEEDED.get(name)
    if isinstance(value, list):  # of one value for each layer
        return [_size(name, item, heads) for item in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    sizes: dict[Any, int] = {
        _SPECIAL: 0,  # no token that is drawn
        _KEY_HEADS: HEADS if value == heads else 1,
        _HEADS: HEADS,
        **SIZES,
    }
    return next((min(value, size) for key, size in sizes.items() if re.search(key, name)), value)


def _run(torch: Any, model: Any, expected: Model, length: int | None) -> None:
    """Call a model with a prefill, chunks, single steps, and positions far apart."""
    accepted = inspect.signature(model.forward).parameters
    total = PREFILL + sum(CHUNKS) + STEPS
    most = min(SIZES["vocab_size"], getattr(model.config, "vocab_size", SIZES["vocab_size"]))
    tokens = torch.randint(2, most, (1, total))
    cached = next((name for name in CACHES if name in accepted), None)
    cache, at = None, 0
    for count in (PREFILL, *CHUNKS, *[1] * STEPS) if cached else (PREFILL,):
        given = {cached: cache, "use_cache": True} if cached else {}
        out = model(input_ids=tokens[:, at : at + count], **given)
        cache, at = getattr(out, cached or "", None), at + count
        if cached and cache is None:
            break
    if "position_ids" in accepted:
        where = _far_positions(expected, length)
        axes = torch.from_numpy(where.T)[:, None]
        axes = axes if len(axes) > 1 else axes[0]
        model(
            input_ids=tokens[:, : len(where)],
            position_ids=axes,
            **({"use_cache": False} if cached else {}),
        )


def _far_positions(expected: Model, length: int | None) -> Any:
    """Return positions from 0 to the last in use, (PREFILL, axes), each axis in its own order."""
    lengths = [
        size
        for layer in text_layers(expected)
        for size in (layer.context_length, layer.original_context_length)
        if size is not None
    ]
    last = (length or min([*lengths, FURTHEST])) - 1
    along = evenly_spread(last + 1, PREFILL)
    axes = max((layer.rotary.axes for layer in text_layers(expected) if layer.rotary), default=1)
    order = np.random.default_rng(0)
    return np.stack([along, *(order.permutation(along) for _ in range(axes - 1))], axis=1)
