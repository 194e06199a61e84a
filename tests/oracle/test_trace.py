"""`trace` and `watch` on models that Transformers builds, right and patched to be wrong."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, assert_refused, assert_within, read_json, read_stdout
from oracle.traced import RELEASED, config_of

import ropecli
from ropecli.checks.trace.watch import CACHES

pytestmark = pytest.mark.oracle

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": 2048,
    "rope_parameters": {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0},
}
FACTOR = 0.1 * math.log(4) + 1  #: Its attention factor.
#: One of each kind: plain, q-norm, local and global bases, NoPE layers, partial, interleaved,
#: latent attention, M-RoPE, a fused projection, no attention interface, an encoder.
SAMPLE = """
apertus arcee bitnet codegen cohere cohere2 deepseek_v2 deepseek_v3 diffllama doge ernie4_5
exaone exaone4 falcon gemma gemma2 gemma3_text glm glm4 glm4_moe gpt_neox gpt_oss gptj granite
granitemoe helium hunyuan_v1_dense jetmoe lara_mini llama llama4_text minimax mistral mixtral
modernbert nemotron olmo olmo2 olmo3 persimmon phi phi3 qwen2 qwen2_moe qwen2_vl qwen3
qwen3_moe seed_oss smollm3 stablelm starcoder2
""".split()  # noqa: SIM905


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    return file


@pytest.mark.parametrize("name", SAMPLE)
def test_layers_apply_what_the_file_says(name: str) -> None:
    found = ropecli.trace(config_of(name))
    assert [(each.module, each.note) for each in found.layers if not each.agrees] == []
    assert found.passed


@pytest.mark.parametrize("name", sorted(RELEASED.keys() - {"bamba"}))
def test_layers_of_released_models_apply_what_the_file_says(name: str) -> None:
    found = ropecli.trace({"model_type": name, **RELEASED[name]})
    assert [(each.module, each.note) for each in found.layers if not each.agrees] == []
    assert found.passed


def test_positions_that_restart_with_a_cache_are_named() -> None:
    """Bamba's class counts positions from 0 in each call."""
    (layer,) = ropecli.trace({"model_type": "bamba", **RELEASED["bamba"]}).layers
    assert layer.note == "query and key: positions restart at 0 with a cache"


#: Bundled configurations whose numbers are not stored; the others are in test_examples.py.
BUNDLED = ["command-r", "gpt-j-6b", "llama-3-8b", "phi-4-mini", "qwen3-8b"]


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_configuration_says_what_its_model_does(name: str) -> None:
    raw = ropecli.load_model(f"example:{name}").raw
    short = {key: 2 for key in ("num_hidden_layers", "n_layer") if key in raw}
    assert ropecli.trace({**raw, **short}).passed


# Models that are wrong.


def modeling() -> Any:
    from transformers.models.llama import modeling_llama

    return modeling_llama


def swap_layout(patch: pytest.MonkeyPatch) -> None:
    """Pairs (2i, 2i + 1), with the angles of pairs (i, i + d/2)."""

    def apply(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        import torch

        half = cos.shape[-1] // 2
        cos, sin = (
            t[..., :half].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim) for t in (cos, sin)
        )
        return tuple(
            x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin
            for x in (q, k)
        )

    patch.setattr(modeling(), "apply_rotary_pos_emb", apply)


def rotary(patch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    """Replace `forward` of the rotary module: change(its own forward, self, x, position_ids)."""
    kind = modeling().LlamaRotaryEmbedding
    own = kind.forward

    def forward(self: Any, x: Any, position_ids: Any) -> Any:
        return change(lambda p: own(self, x, p), position_ids)

    patch.setattr(kind, "forward", forward)


def late(patch: pytest.MonkeyPatch) -> None:
    """Positions of decode that are one too far."""
    rotary(patch, lambda own, p: own(p + 1 if p.shape[-1] == 1 else p))


def twice(patch: pytest.MonkeyPatch) -> None:
    """An attention factor that is applied twice."""
    rotary(patch, lambda own, p: tuple(t * FACTOR for t in own(p)))


def restart(patch: pytest.MonkeyPatch) -> None:
    """Positions that forget the cache."""
    rotary(patch, lambda own, p: own(p - p[..., :1]))


def still(patch: pytest.MonkeyPatch) -> None:
    """Positions of decode that are 0."""
    rotary(patch, lambda own, p: own(p * (p.shape[-1] > 1)))


def other_base(patch: pytest.MonkeyPatch) -> None:
    """Another base in one layer."""
    kind = modeling().LlamaAttention
    own = kind.forward
    positions: list[Any] = []

    def remember(tables: Callable[[Any], Any], p: Any) -> Any:
        positions[:] = [p]
        return tables(p)

    def forward(self: Any, *given: Any, **named: Any) -> Any:
        import torch

        if self.layer_idx == 1:
            theta = 500.0 ** -(torch.arange(0, self.head_dim, 2) / self.head_dim)
            angles = positions[0][..., None] * torch.cat([theta, theta])
            named["position_embeddings"] = (FACTOR * angles.cos(), FACTOR * angles.sin())
        return own(self, *given, **named)

    rotary(patch, remember)
    patch.setattr(kind, "forward", forward)


@pytest.mark.parametrize(
    ("wrong", "layers", "note"),
    [
        (swap_layout, 3, "layout interleaved, expected half"),
        (late, 3, "positions are off by +1 one position at a time"),
        (restart, 3, "positions restart at 0 with a cache"),
        (still, 3, "positions are always 0 one position at a time"),
        (twice, 3, "attention factor 1.29648, expected 1.13863"),
        (other_base, 1, "base 500 without scaling, expected YaRN scaling over 10000"),
    ],
)
def test_a_wrong_rotation_is_named_with_exit_code_1(
    wrong: Callable[[pytest.MonkeyPatch], None],
    layers: int,
    note: str,
    llama: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read_stdout("trace", llama).startswith("PASS  the RoPE of ")
    wrong(monkeypatch)
    found = read_json("trace", llama, code=1)["result"]
    parting = [each for each in found["layers"] if not each["agrees"]]
    assert [found["passed"], len(parting)] == [False, layers]
    assert f"query and key: {note}" in parting[0]["note"]
    assert parting[0]["note"] in read_stdout("trace", llama, code=1)


def test_a_hub_kernel_in_place_of_the_function_is_judged(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package `kernels` makes a module of the function, and replaces its `forward`."""
    import torch

    function, kernel = modeling().apply_rotary_pos_emb, torch.nn.Module()
    kernel.forward = functools.partial(function)
    swap_layout(monkeypatch)
    wrong = modeling().apply_rotary_pos_emb
    monkeypatch.setattr(modeling(), "apply_rotary_pos_emb", kernel)
    assert ropecli.trace(llama).passed
    assert modeling().apply_rotary_pos_emb is kernel
    kernel.forward = wrong
    assert "layout interleaved, expected half" in str(ropecli.trace(llama))


def test_other_sections_than_those_of_the_file_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding

    kind: Any = Qwen2VLRotaryEmbedding
    own = kind.__init__
    given = config_of("qwen2_vl")
    assert ropecli.trace(given).passed

    def wrong(self: Any, *given: Any, **named: Any) -> None:
        own(self, *given, **named)
        self.mrope_section = self.mrope_section[::-1]

    monkeypatch.setattr(kind, "__init__", wrong)
    found = ropecli.trace(given)
    assert not found.passed
    note = "query and key: axes of the pairs 24/24/16, expected 16/24/24: "
    assert str(found.layers[0].note).startswith(note)


@pytest.mark.parametrize("data", ["float32", "bfloat16"])
def test_a_model_that_computes_positions_in_bfloat16_is_named(
    data: str, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(**{key: value for key, value in LLAMA.items() if key != "model_type"})
    config.dtype = data
    model = LlamaModel._from_config(config).eval()  # frequencies stay in float32

    def note() -> str:
        with torch.no_grad(), ropecli.watch(model) as seen:
            for first, last in ((0, 400), (1000, 1200)):
                ids = torch.arange(first, last)[None]
                model(ids % 64, position_ids=ids, use_cache=False)
        layers = seen.verdict(ropecli.load_model(llama)).layers
        assert len({each.note for each in layers}) == 1
        return layers[0].note or ""

    assert note() == ""
    rotary(monkeypatch, lambda own, p: own(p.bfloat16()))
    assert note().startswith("query and key: computed with bfloat16 positions")
    monkeypatch.undo()
    model.to(torch.bfloat16)  # frequencies with it
    assert note().startswith("query and key: computed with bfloat16 frequencies")


# Batches, heads and caches of a model that is watched.


def llama_model(**more: Any) -> Any:
    """A model of the file `LLAMA` with other keys, in the dtype float32."""
    import torch
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    keys = {key: value for key, value in (LLAMA | more).items() if key != "model_type"}
    return LlamaModel._from_config(LlamaConfig(**keys)).eval()


def cache_of(out: Any) -> dict[str, Any]:
    """Return a model's cache as an argument of its next call."""
    name = next(name for name in CACHES if getattr(out, name, None) is not None)
    return {name: out[name]}


def note_of(seen: Any, **more: Any) -> str | None:
    """Return the one note of all layers, by the file with other keys."""
    notes = {each.note for each in seen.verdict(ropecli.load_model(LLAMA | more)).layers}
    (note,) = notes
    return None if note is None else str(note)


#: Two sequences, the second one with three tokens of padding on the left.
PADDED = [list(range(20)), [1, 1, 1, *range(17)]]


def test_every_sequence_of_a_batch_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    model, ids = llama_model(), torch.tensor(PADDED)

    def seen() -> Any:
        with torch.no_grad(), ropecli.watch(model) as seen:
            out = model(ids, position_ids=ids)
            for step in range(3):
                last = ids[:, -1:] + 1 + step
                out = model(last, position_ids=last, **cache_of(out))
        return seen

    assert note_of(seen()) is None
    assert seen().verdict(ropecli.load_model(LLAMA)).calls == (
        "20 positions of 2 sequences, 0 to 19",
        "3 positions of 2 sequences one by one, 20 to 22",
    )
    rotary(monkeypatch, lambda own, p: own(p[:1].expand_as(p)))
    wrong = "query and key: sequence 1 of 2: rotated by the positions of sequence 0"
    assert note_of(seen()) == wrong


def same(x: Any) -> Any:
    """Return vectors as they are."""
    return x


def flip(x: Any) -> Any:
    """Exchange heads and tokens."""
    return x.transpose(1, 2)


#: Shapes that a rotation may take, of (b, h, s, d), and back from them.
SHAPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "b h s d": (same, same),
    "b s h d": (flip, flip),
    "s b h d": (lambda x: x.permute(2, 0, 1, 3), lambda x: x.permute(1, 2, 0, 3)),
    "b*h s d": (lambda x: x.flatten(0, 1), lambda x: x.unflatten(0, (2, -1))),
    "b*s h d": (lambda x: flip(x).flatten(0, 1), lambda x: flip(x.unflatten(0, (2, -1)))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_head_of_a_batch_is_judged(shape: str) -> None:
    import torch
    from torch import nn
    from torch.nn import functional

    rope, to, back = ropecli.Rotary(head_dim=16), *SHAPES[shape]
    wrong: list[int] = []

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(64, 3 * 8 * 16)

        def apply_rope(self, x: Any, start: Any) -> Any:
            x = back(x).contiguous()
            positions = start[:, None].numpy() + np.arange(x.shape[2])
            y = torch.from_numpy(ropecli.rotate(x.numpy(), rope, positions=positions))
            y[:, wrong] = x[:, wrong]
            return to(y)

        def forward(self, x: Any, start_pos: Any) -> Any:
            q, k, v = self.qkv(x).unflatten(-1, (3, 8, 16)).permute(2, 0, 3, 1, 4)
            q, k = (back(self.apply_rope(to(each), start_pos)) for each in (q, k))
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    torch.manual_seed(0)
    model, x, start = Attention(), torch.randn(2, 20, 64), torch.tensor([0, 7])

    def note() -> str | None:
        with torch.no_grad(), ropecli.watch(model) as seen:
            model(x, start_pos=start)
        return str(seen.verdict(rope).layers[0].note)

    assert note() == "None"
    wrong += [5, 6]
    assert note() == "query and key: heads 5, 6 of 8: after equals before: nothing is rotated"


@pytest.mark.parametrize("stale", [False, True])
def test_steps_past_the_trained_length_with_dynamic_ntk(
    stale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    dynamic: dict[str, Any] = {
        "max_position_embeddings": 32,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    }
    model = llama_model(**dynamic)
    if stale:
        monkeypatch.setattr(model.rotary_emb, "rope_type", "default")
    with torch.no_grad(), ropecli.watch(model) as seen:
        out = model(torch.arange(28)[None])
        for step in range(12):
            out = model(torch.tensor([[28 + step]]), **cache_of(out))
    note = "query and key: rotated by the table of short sequences, where 33 or more are in use"
    assert note_of(seen, **dynamic) == (note if stale else None)


@pytest.mark.parametrize("goes_on", [False, True])
def test_position_ids_after_a_cache_was_cropped(goes_on: bool) -> None:
    import torch

    model = llama_model()
    with torch.no_grad(), ropecli.watch(model) as seen:
        cache = cache_of(model(torch.arange(30)[None]))
        next(iter(cache.values())).crop(-10)
        at = torch.arange(5)[None] + (30 if goes_on else 20)
        model(at, position_ids=at, **cache)
    found = seen.verdict(ropecli.load_model(LLAMA))
    assert found.passed is not goes_on
    said = "FAIL  position ids go on at 30 after the cache was cropped to 20 positions\n"
    assert str(found).startswith(said) is goes_on


# Files that cannot be traced.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "telechat"},
            r"model_type 'telechat' is unknown to Transformers \S+; watch a model with code of its "
            r"own: ropecli\.watch",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": "four"}},
            "factor must be a number",
        ),
    ],
)
def test_models_that_cannot_be_traced_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA | changes))
    assert re.search(message, assert_refused("trace", file))


def test_code_next_to_the_file_is_not_run(llama: Path) -> None:
    llama.with_name("modeling_own.py").write_text("raise SystemExit('run')")
    own = {
        "auto_map": {"AutoConfig": "modeling_own.Own", "AutoModel": "owner/name--modeling_own.Own"}
    }
    llama.write_text(json.dumps(LLAMA | own))
    traced = ropecli.trace(llama)
    assert traced.passed
    assert traced.skipped == ("the code that auto_map names",)
    llama.write_text(json.dumps(LLAMA | own | {"model_type": "own"}))
    assert assert_refused("trace", llama).endswith("with code of its own: ropecli.watch")


def test_a_missing_library_is_named_with_what_to_install(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    line = assert_refused("trace", llama)
    assert line.startswith("trace needs PyTorch and Transformers: pip install torch transformers")


def test_time_is_limited(llama: Path) -> None:
    line = assert_refused("trace", llama, "--timeout", "0.001")
    assert line == "building and running the model took more than 0.001 s; raise --timeout"


def test_each_stage_is_reported_and_threads_are_as_before(llama: Path) -> None:
    import torch

    threads, stages = torch.get_num_threads(), list[tuple[str, int]]()
    ropecli.trace(llama, progress=lambda words: stages.append((words, torch.get_num_threads())))
    assert stages == [
        ("importing Transformers", threads),
        ("building the model", 1),
        ("running the model", 1),
        ("identifying the rotations", threads),
    ]
    assert torch.get_num_threads() == threads


# Models of one's own.


def test_a_model_of_ones_own_with_a_function_that_must_be_named() -> None:
    import torch
    from torch import nn
    from torch.nn import functional

    rope = ropecli.Rotary(head_dim=16, base=100.0)

    def turn_heads(x: Any, start: int) -> Any:
        positions = range(start, start + x.shape[-2])
        return torch.from_numpy(ropecli.rotate(x, rope, positions=list(positions)))

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(64, 192)

        def place_heads(self, x: Any, start: int) -> Any:
            return turn_heads(x, start)

        def forward(self, x: Any, input_pos: int = 0) -> Any:
            q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
            q, k = self.place_heads(q, input_pos), self.place_heads(k, input_pos)
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    torch.manual_seed(0)
    model, x = Attention(), torch.randn(1, 30, 64)
    with torch.no_grad():
        with ropecli.watch(model, wrap="place_heads") as seen:
            model(x)
            model(x[:, :7], input_pos=30)
        with ropecli.watch(model) as blind:
            model(x)
    found = seen.verdict(rope)
    assert found.passed
    assert found.calls == ("30 positions, 0 to 29", "7 positions, 30 to 36")
    assert not seen.verdict(ropecli.Rotary(head_dim=16, base=200.0)).passed
    with pytest.raises(ropecli.ArgumentError, match=r"name the function that rotates in `?wrap"):
        blind.verdict(rope)
    with torch.no_grad(), ropecli.watch(model, wrap="place_heads") as seen:
        model(x[:, :4])  # as many positions as heads
    assert seen.verdict(rope).passed
    assert Attention.place_heads.__qualname__.endswith("Attention.place_heads")
    assert not hasattr(Attention.place_heads, "__wrapped__")  # it is as it was
    with (
        pytest.raises(ropecli.ArgumentError, match=r"wrap must name functions .* got nothing"),
        ropecli.watch(model, wrap="nothing"),
    ):
        pass


def test_a_function_of_one_argument_that_is_named() -> None:
    """Its positions come from elsewhere."""
    import torch
    from torch import nn
    from torch.nn import functional

    rope = ropecli.Rotary(head_dim=16)

    def turn(x: Any) -> Any:
        return torch.from_numpy(ropecli.rotate(x, rope))

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(64, 192)

        def place_heads(self, x: Any) -> Any:
            return turn(x)

        @staticmethod
        def turned_here(x: Any) -> Any:
            return turn(x)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
            q, k = self.turned_here(q), self.turned_here(x=k)
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    torch.manual_seed(0)
    model = Attention()
    with torch.no_grad(), ropecli.watch(model, wrap="turned_here") as seen:
        model(torch.randn(1, 30, 64))
    assert [layer.agrees for layer in seen.verdict(rope).layers] == [True]


@pytest.mark.parametrize("model_type", ["falcon_h1"])
def test_a_file_that_transformers_saved(model_type: str, tmp_path: Path) -> None:
    from transformers import CONFIG_MAPPING

    CONFIG_MAPPING[model_type](num_hidden_layers=2).save_pretrained(tmp_path)
    assert "__float__" in (tmp_path / "config.json").read_text()
    assert ropecli.trace(tmp_path).passed


def test_pair_lengths_are_those_of_the_projections(llama: Path) -> None:
    """By layer and head, of all heads, from hooks of our own on a model of Transformers."""
    import torch
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    given = {"num_attention_heads": 8, "hidden_size": 256, "intermediate_size": 64}
    model = LlamaModel(LlamaConfig(**{k: v for k, v in LLAMA.items() if k != "model_type"} | given))
    projected: dict[str, list[Any]] = {}
    for name, module in model.named_modules():
        if name.endswith(("q_proj", "k_proj")):
            module.register_forward_hook(
                lambda _, __, out, name=name: projected.setdefault(name, []).append(out[0])
            )
    with torch.no_grad(), ropecli.watch(model) as seen:
        first = model(torch.arange(30)[None], use_cache=True)
        name = next(name for name in CACHES if name in first)
        model(torch.arange(30, 37)[None], **{name: first[name]})
    layer = ropecli.load_model(llama).layer()
    assert layer.rotary is not None
    found = seen.usage(layer.rotary)
    assert (found.layers, found.tokens) == ((0, 1, 2), (37, 37))
    assert (found.q_norms.shape, found.k_norms.shape) == ((3, 8, 16), (3, 2, 16))
    for role, norms in (("q", found.q_norms), ("k", found.k_norms)):
        for index in range(3):
            rows = torch.cat(projected[f"layers.{index}.self_attn.{role}_proj"]).double().numpy()
            heads = rows.reshape(37, -1, 2, 16)  # pairs (i, i + 16)
            expected = np.hypot(heads[:, :, 0], heads[:, :, 1]).mean(axis=0)
            # Both are float64 means of 37 float32 vectors.
            assert_within(role, got=norms[index], expected=expected, tolerance=1e-14)


def test_a_dump_of_trace_is_read_by_usage(llama: Path) -> None:
    dump = llama.with_name("vectors.safetensors")
    read_stdout("trace", llama, "-o", dump)
    patterns = ("--q-tensor", "*.query.before", "--k-tensor", "*.key.before")
    shown = read_json("usage", dump, dump, *patterns, "--model", llama)["result"]
    assert np.shape(shown["q_norms"]) == (3, 4, 16)
    assert np.shape(shown["k_norms"]) == (3, 1, 16)
    assert "exists" in assert_refused("trace", llama, "-o", dump)
    assert "must end in .safetensors" in assert_refused("trace", llama, "-o", "vectors.npz")


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    examples = ROOT / "examples" / "case_studies" / "models"
    shutil.copy(examples / "gemma-3-4b.json", tmp_path / "config.json")
    page = (ROOT / "docs" / "commands" / "trace.md").read_text()
    shown, code, printed = re.findall(r"^```(?:text|py)\n(.*?)^```", page, re.M | re.S)[1:4]
    command, _, expected = shown.partition("\n")
    text = read_stdout(*command.removeprefix("$ ropecli ").split())
    assert re.sub(r"Transformers \S+", "Transformers ...", text) == expected
    torch.manual_seed(0)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "trace.md", "exec"), {"__name__": "page"})
    assert out.getvalue() == printed


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_no_attention_is_loaded_that_a_file_names(key: str) -> None:
    """Nothing of that name is there, so that loading it would fail."""
    assert ropecli.trace(LLAMA | {key: "org/name"}).passed
