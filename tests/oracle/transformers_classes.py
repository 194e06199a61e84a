"""The rotary configuration classes of the installed Transformers, and their modules."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

#: Classes that mention rotary keys and turn nothing.
WITHOUT = {
    "BltConfig": "a composite: its parts rotate, each by its own configuration",
    "EsmFold2AtomEncoderConfig": "turns atoms by where they are in space, with two bases",
    "Glm5NextTextConfig": "qk_rope_head_dim is 0",
    "InternLM3Config": "the library has its configuration, and no modelling code",
    "IQuestCoderConfig": "the library has its configuration, and no modelling code",
    "KimiLinearConfig": "its attention has qk_rope_head_dim, and does not rotate",
    "MusicFlamingoConfig": "turns audio features by products of time and index, no queries",
}
#: Keys that the defaults lack to run in the library, or to rotate.
TWEAKS: dict[str, dict[str, Any]] = {
    "CohereCompassTextConfig": {
        "layer_types": ["sliding_attention", "full_attention"] * 20,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": None,
        },
    },
    "EsmConfig": {"position_embedding_type": "rotary"},
    "Glm4vMoeTextConfig": {"head_dim": 128},
    "Glm4vTextConfig": {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "GlmImageTextConfig": {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "HunYuanDenseV1Config": {"head_dim": 128},
    "HunYuanMoEV1Config": {"head_dim": 128},
    "HunYuanVLTextConfig": {
        "head_dim": 128,
        "rope_parameters": {"rope_theta": 1e4, "mrope_section": [16, 16, 16, 16]},
    },
    "MinistralConfig": {"head_dim": 128},
    "NemotronConfig": {"num_key_value_heads": 8},
    "Qwen3OmniMoeTextConfig": {"head_dim": 128},
    "Qwen4ExpTextConfig": {
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25},
        "indexer_head_dim": 128,
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "SeamlessM4TConfig": {"position_embeddings_type": "rotary"},
    "Wav2Vec2BertConfig": {"position_embeddings_type": "rotary"},
    "Wav2Vec2ConformerConfig": {"position_embeddings_type": "rotary"},
    "Zamba2Config": {"use_mem_rope": True},
}
#: Classes that do not rotate by default.
OFF = (
    "EsmConfig",
    "SeamlessM4TConfig",
    "Wav2Vec2BertConfig",
    "Wav2Vec2ConformerConfig",
    "Zamba2Config",
)
#: Terms that distinguish the parts of a model.
PARTS = re.findall(
    r"\w+",
    "Vision Audio Text Encoder Decoder Talker Video Depth Cross Assistant Indexer Code Predictor "
    "Patcher Local Global Linear DeltaNet Rel ViT Memory Lightning Conv",
)


#: Folders whose classes run a configuration of another.
CODE_OF = {"exaone": "llama", "sarvam_mla": "deepseek_v3", "sarvam_moe": "glm4_moe"}


@dataclass(frozen=True)
class Case:
    """A configuration class."""

    name: str
    folder: str  #: Name of the folder in the library's models that has its code.
    config_class: Any

    def config(self) -> Any:
        """An instance that runs."""
        config = self.config_class(**TWEAKS.get(self.name, {}))
        config._attn_implementation = "eager"
        if self.name == "DbrxConfig":  # its attention takes these two from a part without them
            config.attn_config.rope_theta, config.attn_config.clip_qkv = 10_000.0, 1e9
        return config


@cache
def cases() -> dict[str, Case]:
    """Every configuration class whose defaults mention rotary embeddings."""
    import transformers
    from transformers.configuration_utils import PreTrainedConfig

    logging.disable(logging.CRITICAL)
    found = {}
    for path in sorted(
        (Path(transformers.__file__).parent / "models").glob("*/configuration_*.py")
    ):
        module = _import(f"transformers.models.{path.parent.name}.{path.stem}")
        for name, member in vars(module).items():
            own = inspect.isclass(member) and member.__module__ == module.__name__
            if own and issubclass(member, PreTrainedConfig) and _mentions(member):
                folder = CODE_OF.get(path.parent.name, path.parent.name)
                found[name] = Case(name=name, folder=folder, config_class=member)
    return found


def _mentions(config_class: Any) -> bool:
    try:
        keys = config_class().to_dict()
    except Exception:  # needs parts, which are separate classes
        return False
    return any("rope" in key or "rotary" in key for key in keys)


def _import(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def rotary_class(case: Case) -> Any:
    """Return the rotary module class of a configuration; None if the attention has it all."""
    if case.name == "RoFormerConfig":
        return next(c for c in _modules(case.folder) if "SinusoidalPositional" in c.__name__)
    found = [
        c
        for c in _modules(case.folder)
        if re.search("Rotary|Rope|RoPE", c.__name__)
        and not re.search("Attention|Layer|Model", c.__name__)
    ]
    return max(found, key=lambda c: _fit(c, case), default=None)


def attention_class(case: Case) -> Any:
    """Return the attention module class of a configuration."""
    found = [
        c
        for c in _modules(case.folder)
        if re.search("Attention|Attn|MLA$", c.__name__)
        and not re.search(
            "FlashAttention2|Sdpa|RoPECross|CrossAtt|Indexer|Layer$|Block$|AttentionNorm",
            c.__name__,
        )
        and re.search(
            r"rotary|apply_rot|rotate|cos\b|freqs_cis|sinusoidal_pos|embed_positions",
            inspect.getsource(c),
        )
    ]
    return max(found, key=lambda c: _fit(c, case), default=None)


@cache
def _modules(folder: str) -> tuple[Any, ...]:
    import transformers
    from torch import nn

    found: dict[str, Any] = {}
    paths = (Path(transformers.__file__).parent / "models" / folder).glob("modeling_*.py")
    for path in sorted(paths):
        members = vars(_import(f"transformers.models.{folder}.{path.stem}"))
        found |= {
            name: member
            for name, member in members.items()
            if inspect.isclass(member)
            and issubclass(member, nn.Module)
            and name == member.__name__
            and member.__module__.startswith("transformers.models")
        }
    return tuple(found.values())


def _fit(module_class: Any, case: Case) -> float:
    """Return how well a module's class fits a configuration's, by annotation and by name."""
    parameters = inspect.signature(module_class.__init__).parameters
    annotation = str(getattr(parameters.get("config"), "annotation", ""))
    fit = 100.0 if case.name in re.findall(r"\w+", annotation) else 0.0
    config, module = _words(case.name) - {"Config"}, _words(module_class.__name__)
    fit += 3 * len(config & module) - len(config - module)
    return fit - 2 * sum((w in module_class.__name__) != (w in case.name) for w in PARTS)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[A-Z]+|\d+|[a-z]+", name))
