"""The rotary_embedding package of vLLM's wheel, with the imports of the rest of vLLM stubbed."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

#: Where .ci/run unpacks the package from the wheel of `pip download --no-deps vllm`.
WHEEL = Path(sys.prefix) / "vllm"
PACKAGE = "vllm.model_executor.layers.rotary_embedding"
#: LongRoPE asks the configuration of the server for its longest sequence.
SERVER = SimpleNamespace(model_config=SimpleNamespace(max_model_len=0))


def wheel_version() -> str:
    """Return the version that the wheel states."""
    (found,) = WHEEL.glob("vllm-*.dist-info")
    return found.name.removeprefix("vllm-").removesuffix(".dist-info")


@cache
def _package() -> Any:
    import torch

    class CustomOp(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self, **_: Any) -> None:
            super().__init__()

        @staticmethod
        def register(_name: str) -> Any:
            return lambda cls: cls

        @classmethod
        def enabled(cls) -> bool:
            return False

    def nothing(*_: Any, **__: Any) -> None:
        pass

    no = SimpleNamespace(is_cuda=lambda: False, is_rocm=lambda: False, is_cpu=lambda: True)
    log = SimpleNamespace(warning_once=nothing, info=nothing, warning=nothing)
    language = SimpleNamespace(jit=lambda function: function, constexpr=None)
    stubs: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm._aiter_ops": {"rocm_aiter_ops": no},
        "vllm.config": {"get_current_vllm_config": lambda: SERVER},
        "vllm.distributed": {
            "get_tensor_model_parallel_rank": lambda: 0,
            "get_tensor_model_parallel_world_size": lambda: 1,
        },
        "vllm.logger": {"init_logger": lambda _: log},
        "vllm.model_executor": {},
        "vllm.model_executor.custom_op": {"CustomOp": CustomOp, "PluggableLayer": CustomOp},
        "vllm.model_executor.layers": {},
        "vllm.platforms": {"current_platform": no},
        "vllm.triton_utils": {"tl": language, "triton": language},
        "vllm.utils": {},
        "vllm.utils.flashinfer": {"has_flashinfer": lambda: False},
        "vllm.utils.torch_utils": {
            "async_tensor_h2d": nothing,
            "direct_register_custom_op": nothing,
        },
    }
    for name, content in stubs.items():
        module = ModuleType(name)
        module.__path__ = [str(WHEEL.joinpath(*name.split(".")))]
        vars(module).update(content)
        sys.modules[name] = module
    return importlib.import_module(PACKAGE)


def rotation(
    head_dim: int, context: int, scaling: dict[str, Any], *, max_model_len: int, neox: bool = True
) -> tuple[list[float], float]:
    """Return the angle of each pair at position 1, and the factor, of what `get_rope` returns."""
    import torch

    package = _package()
    package._ROPE_DICT.clear()
    SERVER.model_config.max_model_len = max_model_len
    rope = package.get_rope(head_dim, context, neox, scaling, torch.float32)
    if hasattr(rope, "long_short_cos_sin_cache"):
        row = (rope.original_max_position_embeddings if rope.use_long_rope else 0) + 1
        cosine, sine = rope.long_short_cos_sin_cache[row].chunk(2)
    else:
        cosine, sine = rope.cos_sin_cache[1].chunk(2)
    return torch.atan2(sine, cosine).tolist(), float(torch.hypot(cosine, sine).max())
