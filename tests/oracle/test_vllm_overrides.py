"""The --hf-overrides that `scale` prints, applied to classes of Transformers as vLLM does it."""

from __future__ import annotations

from typing import Any

import pytest
from models.stacks.measured import same_angles
from models.test_extend import FILES, UNWRITABLE, WITHOUT_VLLM, extended
from oracle.vllm_rope import rotation

from ropecli.models.diff import FLOAT32

pytestmark = pytest.mark.oracle

#: Of these, vLLM gives `get_rope` other arguments than those of a plain model.
OTHERS = UNWRITABLE | {"deepseek-v3", "kimi-k2", "internlm2-20b", "glm-4-9b"}


def update(target: Any, values: dict[str, Any]) -> None:
    """Merge values into a part, its objects included."""
    for key, value in values.items():
        old = getattr(target, key, None)
        merged = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        setattr(target, key, merged)


def apply(config: Any, overrides: dict[str, Any]) -> None:
    """Set overrides on a configuration in the order of vLLM 0.33.0: numbers, then objects."""
    from transformers import PreTrainedConfig

    config.update({k: v for k, v in overrides.items() if not isinstance(v, dict)})
    for key, value in overrides.items():
        if isinstance(value, dict):
            part = getattr(config, key, None)
            update(part, value) if isinstance(part, PreTrainedConfig) else setattr(
                config, key, value
            )


@pytest.mark.parametrize("name", [name for name in FILES if name not in OTHERS])
def test_vllm_computes_the_table_that_is_shown(name: str) -> None:
    from transformers import AutoConfig

    layer, found, (proposal, *_) = extended(FILES[name], 2)
    if not proposal.vllm:
        assert name in WITHOUT_VLLM
        return
    given = dict(FILES[name])
    config = AutoConfig.for_model(given.pop("model_type"), **given)
    apply(config, dict(proposal.vllm))
    text = config.get_text_config()
    scaling = text.rope_parameters.get(layer.name, text.rope_parameters)
    rope = found.ropes[proposal.method]
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    # Tables of these types are the same whatever their length, which may be millions of rows.
    short = scaling["rope_type"] in ("linear", "llama3")
    context = 64 if short else text.max_position_embeddings
    theta, factor = rotation(size, context, dict(scaling), max_model_len=found.context_length)
    assert same_angles(rope, theta)
    assert abs(rope.attention_factor / factor - 1) < FLOAT32
