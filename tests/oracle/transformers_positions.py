"""What a rotary module of Transformers makes of positions that step along one axis at a time.

Token 0 stands at the origin, token k one step along axis k - 1.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from typing import Any

TOKENS = 7


def forms(case_name: str, rotary: Any, keys: dict[str, Any]) -> list[tuple[str, int]]:
    """The shapes of positions to try, with their number of axes."""
    given = keys.get("rope_parameters") or {}
    source = "" if rotary is None else inspect.getsource(type(rotary))
    own = {
        "EfficientLoFTRConfig": ("grid", 2),
        "EsmFold2AtomEncoderConfig": ("last", 4),
        "MiniMaxM3VLVisionConfig": ("last", 3),
        "NeuCodecConfig": ("heads", 1),  # these two turn each head by its number
        "Xcodec2Config": ("heads", 1),
    }
    if case_name in own:
        return [own[case_name]]
    if given.get("rope_type") == "axial" or "pixel_values" in source or hasattr(rotary, "freqs_ci"):
        return [("last", 2), ("batch, last", 2), ("first", 2)]
    if "mrope_section" in source + str(given) and "HunYuanVL" not in case_name:
        return [("m-rope", 3), ("text", 1)]
    return [("text", 1)]  # HunYuanVL turns a pair by two axes: a rotation where they agree


def positions(form: str, axes: int) -> Any:
    """The positions of the tokens in one of the shapes that modules take."""
    import torch

    steps = torch.zeros(axes, TOKENS)
    for k in range(axes):
        steps[k, k + 1] = 1
    if form == "m-rope":
        return steps[:, None]
    if form == "first":
        return steps
    if form == "batch, last":
        return steps.T.contiguous()[None]
    return steps.T.contiguous() if form == "last" else steps[:1]


def embeddings(rotary: Any, config: Any, layer_type: str | None, form: str, axes: int) -> Any:
    """cos and sin, or what else the module makes, and the positions for its attention."""
    import torch

    where = positions(form, axes)
    count = torch.arange(TOKENS)[None]
    x = torch.zeros(1, TOKENS, 8)
    taken = [] if rotary is None else list(inspect.signature(rotary.forward).parameters)
    given: dict[str, Any] = {"layer_type": layer_type} if "layer_type" in taken else {}
    made = None
    if hasattr(rotary, "freqs_ci"):
        made = _from_grid(rotary.freqs_ci)
    elif type(rotary).__name__.startswith("RoFormer"):
        rotary.weight.data = rotary.create_weight()
        made, where = rotary((1, TOKENS))[None, None], count
    elif form == "grid":
        run = _with(rotary, "compute_embeddings", _compute_embeddings)
        made = run(torch.zeros(1, 8, 64, 64))
    elif "pixel_values" in taken:
        run = _with(rotary, "get_patches_center_coordinates", _patch_centers)
        made = run(torch.zeros(1, 3, 64, 64))
    elif "ref_pos" in taken:
        points = positions("last", 4)[None]
        made = rotary(points[..., :3], points[..., 3], torch.float32)
    elif "position_ids" in taken:
        ids = torch.arange(config.num_attention_heads)[None] if form == "heads" else where
        made = rotary(x, position_ids=ids, **given)
    else:
        made, where = None if rotary is None else rotary(x), count
    return made, where


def _from_grid(table: Any) -> Any:
    """One row down and one column right of Llama 4's table, which begins at (1, 1)."""
    import torch

    side = math.isqrt(table.shape[0])
    steps = torch.ones(TOKENS, *table.shape[1:], dtype=table.dtype)
    steps[1], steps[2] = table[side] / table[0], table[1] / table[0]
    steps[steps.imag.abs() < 1e-6] = 1  # what rounding left; the slowest pair turns by 2e-4
    return steps


def _compute_embeddings(original: Any) -> Any:
    def replaced(inv_freq: Any, _height: int, _width: int, hidden_size: int) -> Any:
        import torch

        grid = original(inv_freq, 2, 2, hidden_size)[0]  # begins at (1, 1)
        angles = torch.zeros(1, TOKENS, hidden_size // 2)
        angles[0, 1], angles[0, 2] = grid[1, 0] - grid[0, 0], grid[0, 1] - grid[0, 0]
        return angles

    return replaced


def _patch_centers(_original: Any) -> Any:
    """Coordinates of which 2 pi, by which the module multiplies them, makes steps of one."""
    return lambda *_, **__: positions("last", 2) / (2 * math.pi)


def _with(rotary: Any, name: str, replacement: Any) -> Any:
    """The module with a function of its file replaced while it runs."""
    file = sys.modules[type(rotary).__module__]

    def run(*given: Any, **named: Any) -> Any:
        original = getattr(file, name)
        setattr(file, name, replacement(original))
        try:
            return rotary(*given, **named)
        finally:
            setattr(file, name, original)

    return run


def arguments(attention: Any, made: Any, where: Any, width: int) -> dict[str, Any]:
    """Arguments for an attention module's forward, with random vectors."""
    import torch

    source = inspect.getsource(type(attention))
    taken = inspect.signature(attention.forward).parameters
    size: tuple[int, ...] = (TOKENS, width) if "cu_seqlens" in taken else (1, TOKENS, width)
    if "height, width, _ = hidden_states.shape" in source:
        size = (1, 1, TOKENS, width)
    if "position_embeddings[self.rope_layer_type]" in source:
        made = {attention.rope_layer_type: made}
    points = where.ndim == 3 and where.shape[-1] in {2, 3}
    ids = where.long() if points or where.shape[0] == 1 else torch.arange(TOKENS)[None]
    known = {
        "hidden_states": torch.randn(*size, requires_grad=True),
        "query": torch.randn(1, 1, TOKENS, width),
        "position_ids": ids,
        "cu_seqlens": torch.tensor([0, TOKENS], dtype=torch.int32),
        "max_seqlen": TOKENS,
        "context_hidden_states": torch.zeros(1, 0, width),
        "attention_mask": torch.zeros(1, 1, TOKENS, TOKENS) if "indexer" in source else None,
    }
    for name in ("key", "value"):
        known[name] = torch.randn(1, 1, TOKENS, getattr(attention, "kv_in_dim", width))
    for name in taken:
        if re.fullmatch(".*position_embeddings|rotary_pos_emb|freqs_cis?|sinusoidal_pos", name):
            known[name] = made
    required = [n for n, p in taken.items() if p.default is p.empty and p.kind not in {2, 4}]
    return {name: known.get(name) for name in taken if name in known or name in required}
