"""Running an attention module of Transformers until it would score its queries."""

from __future__ import annotations

import sys
from typing import Any

from oracle.transformers_positions import TOKENS

#: Its rotation comes before the projection, which is made to pass it on.
BEFORE_PROJECTION = ("seamless_m4t", "wav2vec2_bert", "wav2vec2_conformer")


def prepared(attention: Any, folder: str) -> Any:
    """Norms that pass everything on, so that a query stays linear in what it is made of."""
    import torch

    for module in attention.modules():
        if "Norm" in type(module).__name__:
            module.forward = lambda x, *more, **_: (
                (x, *more) if more and torch.is_tensor(more[0]) else x
            )
    for parameter in attention.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.05)
        else:
            torch.nn.init.constant_(parameter, 0.05)
    if folder in BEFORE_PROJECTION:
        attention.linear_q.weight.data = torch.eye(*attention.linear_q.weight.shape)
    return attention


def width(attention: Any) -> int:
    """Of the vectors that the first layer takes, the query's where it is known by name."""
    names = (
        "q_proj",
        "qkv",
        "query_key_value",
        "Wqkv",
        "qkv_proj",
        "q_a_proj",
        "query",
        "linear_q",
    )
    layers = [getattr(attention, name, None) for name in names] + list(attention.modules())
    sizes = [getattr(m, "in_features", None) or getattr(m, "nx", None) for m in layers]
    return next(int(size) for size in sizes if size)


class Scored(Exception):
    """Raised in place of the attention's scores, with the queries."""


def run(attention: Any, given: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Queries as they are scored, and the outputs of the linear layers before them, in order."""
    from transformers import AttentionInterface

    sources = [given["hidden_states"]] if "hidden_states" in given else []

    def seen(_module: Any, _inputs: Any, output: Any) -> Any:
        sources.append(output)
        return output.clone()  # what follows may write in place

    hooks = [
        module.register_forward_hook(seen)
        for module in attention.modules()
        if not list(module.children())
        and hasattr(module, "weight")
        and "Norm" not in type(module).__name__
    ]

    def scored(_module: Any, query: Any, *_: Any, **__: Any) -> Any:
        raise Scored(query)

    file = sys.modules[type(attention).__module__]
    names = [n for n in vars(file) if n.endswith("eager_attention_forward")]
    originals = {name: getattr(file, name) for name in names}
    for name in names:
        setattr(file, name, scored)
    AttentionInterface.register("eager", scored)
    try:
        with first_product():
            attention(**given)
    except Scored as stop:
        query = stop.args[0]
        if query.ndim == 3:
            query = query[None]
        return (query if query.shape[2] == TOKENS else query.transpose(1, 2)), sources
    finally:
        AttentionInterface._global_mapping.pop("eager", None)
        for name, original in originals.items():
            setattr(file, name, original)
        for hook in hooks:
            hook.remove()
    msg = "the attention scored nothing"
    raise RuntimeError(msg)


def first_product() -> Any:
    """Stops at the first product of queries, for attention that scores them in its own code."""
    import torch
    from torch.overrides import TorchFunctionMode

    products = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm}
    sums = {torch.baddbmm, torch.Tensor.baddbmm}  # their first argument is what is added

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function in products | sums:
                query, key = args[1:3] if function in sums else args[:2]
                if query.requires_grad and key.requires_grad and key.ndim > 2:
                    raise Scored(query)
            return function(*args, **(kwargs or {}))

    return Mode()
