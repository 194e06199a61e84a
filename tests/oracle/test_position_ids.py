"""Ids of images and videos are those of Transformers' own functions."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli.checks.positions.vision import FAMILIES, family_of

pytestmark = pytest.mark.oracle

#: Classes whose functions take the kind of each token, and the family of each.
MODELS = {
    "qwen2_vl": ("qwen2-vl", "Qwen2VLModel"),
    "paddleocr_vl": ("qwen2-vl", "PaddleOCRVLModel"),
    "qwen2_5_vl": ("qwen2.5-vl", "Qwen2_5_VLModel"),
    "qwen3_vl": ("qwen3-vl", "Qwen3VLModel"),
    "qwen3_vl_moe": ("qwen3-vl", "Qwen3VLMoeModel"),
    "qwen3_5": ("qwen3-vl", "Qwen3_5Model"),
    "qwen3_5_moe": ("qwen3-vl", "Qwen3_5MoeModel"),
    "qwen4_exp": ("qwen3-vl", "Qwen4ExpModel"),
    "cohere_compass": ("qwen3-vl", "CohereCompassModel"),
    "cosmos3_edge": ("qwen3-vl", "Cosmos3EdgeModel"),
    "cosmos3_omni": ("qwen3-vl", "Cosmos3OmniModel"),
    "glm4v": ("glm4v", "Glm4vModel"),
    "glm4v_moe": ("glm4v", "Glm4vMoeModel"),
    "glm46v": ("glm4v", "Glm46VModel"),
    "glm_ocr": ("glm4v", "GlmOcrModel"),
    "ernie4_5_vl_moe": ("ernie4.5-vl", "Ernie4_5_VLMoeModel"),
    "hunyuan_vl": ("hunyuan-vl", "HunYuanVLModel"),
    "hy_v4_vl": ("hy-v4-vl", "HYV4VLModel"),
}
OMNI = {
    "qwen2_5_omni": ("qwen2.5-omni", "Qwen2_5OmniThinkerForConditionalGeneration"),
    "qwen3_omni_moe": ("qwen3-omni", "Qwen3OmniMoeThinkerForConditionalGeneration"),
}
TEXT, START, END, IMAGE, VIDEO, AUDIO = range(6)  #: Token ids.


def class_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), name)


def of_transformers(module: str, grids: list[list[int]], text: list[int], facts: Any) -> Any:
    """Return the ids that the model's class computes for grids among text, (axes, tokens)."""
    import torch

    family, name = MODELS[module]
    model = class_of(module, name)
    kinds: list[int] = []
    for length, grid in zip(text, [*grids, None], strict=True):
        kinds += [0] * length
        if grid is not None:
            t, h, w = grid
            video, merge = t > 1, facts["spatial_merge_size"]
            merged = facts["temporal_merge_size"] if video and family == "ernie4.5-vl" else 1
            columns = w // merge + FAMILIES[family].newlines
            kinds += [1 + video] * (t // merged * (h // merge) * columns)
    videos = [grid for grid in grids if grid[0] > 1]
    images = [grid for grid in grids if grid[0] == 1]
    stub = SimpleNamespace(
        config=SimpleNamespace(
            vision_config=SimpleNamespace(**facts),
            text_config=SimpleNamespace(rope_parameters={"mrope_section": [4, 4, 4, 4]}),
        )
    )
    stub.get_vision_position_ids = model.get_vision_position_ids.__get__(stub)
    more: dict[str, Any] = {}
    if FAMILIES[family].per_second and videos:
        more["second_per_grid_ts"] = torch.tensor(facts["seconds"])
    if not FAMILIES[family].still:
        more["video_grid_thw"] = torch.tensor(videos) if videos else None
    ids, _ = model.get_rope_index(
        stub,
        torch.zeros(1, len(kinds), dtype=torch.long),
        torch.tensor([kinds]),
        image_grid_thw=torch.tensor(images) if images else None,
        **more,
    )
    return ids[:, 0].numpy()


@pytest.mark.parametrize("module", MODELS)
def test_ids_are_those_of_transformers(module: str) -> None:
    family = MODELS[module][0]
    facts_of = FAMILIES[family]
    assert family_of(module) == family
    random = np.random.default_rng(0)
    for _ in range(30):
        merge, count = int(random.integers(1, 4)), int(random.integers(1, 4))
        grids = []
        for _ in range(count):
            one = facts_of.by_frame or facts_of.still
            t = 1 if one else 2 * int(random.integers(0, 4)) or 1
            grids.append([t, *(merge * random.integers(1, 6, 2)).tolist()])
        seconds = random.choice([0.5, 1.0, 1.7], count).tolist()
        facts = {
            "spatial_merge_size": merge,
            "temporal_merge_size": 2,
            "tokens_per_second": int(random.integers(1, 26)),
            "seconds": [s for s, grid in zip(seconds, grids, strict=True) if grid[0] > 1],
        }
        # Without text between them, Transformers takes two images for one.
        text = random.integers(1, 5, count + 1).tolist()
        expected = of_transformers(module, grids, text, facts)
        timed = {"seconds": seconds} if facts_of.per_second else {}
        found = ropecli.positions(
            expected,
            grids=grids,
            mrope=family,
            text=text,
            config={"vision_config": facts},
            stack="transformers",
            **timed,
        )
        assert found.passed, (facts, grids, text, found.cause)


@pytest.mark.parametrize("module", OMNI)
@pytest.mark.parametrize("per_second", [None, 13])
def test_ids_of_omni_models_are_those_of_transformers(module: str, per_second: int | None) -> None:
    """Of images and videos without their sound; what stands between them are 2 marks or more."""
    import torch

    family, name = OMNI[module]
    assert family_of(module) == family
    random = np.random.default_rng(1)
    for _ in range(30):
        count = int(random.integers(1, 4))
        grids = [
            [int(random.integers(1, 5)), *(2 * random.integers(1, 5, 2))] for _ in range(count)
        ]
        seconds = random.choice([0.5, 1.0, 1.7], count).tolist()
        words = random.integers(0, 4, count + 1).tolist()
        tokens: list[int] = []
        for length, grid in zip(words, [*grids, None], strict=True):
            tokens += [TEXT] * length
            if grid is not None:
                kind = VIDEO if grid[0] > 1 else IMAGE
                tokens += [START, *[kind] * (int(np.prod(grid)) // 4), END]
        config = SimpleNamespace(
            image_token_id=IMAGE,
            video_token_id=VIDEO,
            audio_token_id=AUDIO,
            vision_start_token_id=START,
            audio_start_token_id=AUDIO + 1,
            position_id_per_seconds=per_second or 25,
            seconds_per_chunk=2,
        )
        model = class_of(module, name)
        stub = SimpleNamespace(config=config, spatial_merge_size=2)
        stub.get_llm_pos_ids_for_vision = model.get_llm_pos_ids_for_vision.__get__(stub)
        images = [grid for grid in grids if grid[0] == 1]
        videos = [grid for grid in grids if grid[0] > 1]
        ids, _ = model.get_rope_index(
            stub,
            torch.tensor([tokens]),
            image_grid_thw=torch.tensor(images) if images else None,
            video_grid_thw=torch.tensor(videos) if videos else None,
            attention_mask=torch.ones(1, len(tokens), dtype=torch.long),
            second_per_grids=torch.tensor(
                [s for s, grid in zip(seconds, grids, strict=True) if grid[0] > 1]
            ),
        )
        text = [words[0] + 1, *[each + 2 for each in words[1:-1]], words[-1] + 1]
        facts = {} if per_second is None else {"position_id_per_seconds": per_second}
        found = ropecli.positions(
            ids[:, 0].numpy(),
            grids=grids,
            text=text,
            mrope=family,
            seconds=seconds,
            config={"thinker_config": facts},
        )
        assert found.passed, (grids, text, seconds, found.cause)


def test_ids_of_glm_image_are_those_of_transformers() -> None:
    import torch

    model = class_of("glm_image", "GlmImageModel")
    grids, words = [[1, 3, 5], [1, 6, 2]], [2, 1, 4]
    tokens: list[int] = []
    for length, grid in zip(words, [*grids, None], strict=True):
        tokens += [TEXT] * length
        if grid is not None:
            tokens += [START, *[IMAGE] * int(np.prod(grid)), END]
    stub = SimpleNamespace(
        config=SimpleNamespace(image_start_token_id=START, image_end_token_id=END)
    )
    stub.get_vision_position_ids = model.get_vision_position_ids.__get__(stub)
    ids, _ = model.get_rope_index(stub, torch.tensor([tokens]), image_grid_thw=torch.tensor(grids))
    text = [words[0] + 1, words[1] + 2, words[2] + 1]
    assert family_of("glm_image") == "glm-image"
    found = ropecli.positions(ids[:, 0].numpy(), grids=grids, text=text, mrope="glm-image")
    assert found.passed, found.cause


@pytest.mark.parametrize("mode", ["16x", "4x"])
def test_ids_of_minicpm_v_are_those_of_transformers(mode: str) -> None:
    """Of images with and without slices and newlines after them, and text between some."""
    import torch

    slice_start, slice_end, newline = 7, 8, 9
    model = class_of("minicpmv4_7", "MiniCPMV4_7Model")
    config = SimpleNamespace(
        image_start_id=START,
        image_end_id=END,
        slice_start_id=slice_start,
        slice_end_id=slice_end,
        newline_id=newline,
        downsample_mode="16x",
    )
    stub = SimpleNamespace(config=config, _frame_end_idx=model._frame_end_idx)
    for name in ("_group_visual_frames", "get_vision_position_ids"):
        setattr(stub, name, getattr(model, name).__get__(stub))
    assert family_of("minicpmv4_7") == "minicpm-v"
    merge = {"16x": 4, "4x": 2}[mode]
    random = np.random.default_rng(2)
    for _ in range(30):
        grids, sizes, tokens = [], [], []
        count = int(random.integers(1, 4))
        text = random.integers(0, 4, count + 1).tolist()
        for length in text[:-1]:
            tokens += [TEXT] * length
            h, w, height, width = random.integers(1, 12, 4).tolist()
            newlines = int(random.integers(0, 3))
            rows, columns = random.integers(1, 4, 2).tolist() if random.random() < 0.6 else (0, 0)
            tokens += [START, *[IMAGE] * (h * w), END]
            one = [slice_start, *[IMAGE] * (height * width), slice_end]
            for row in range(rows):
                tokens += [newline] * (row > 0) + one * columns
            tokens += [newline] * newlines
            sizes += [[merge * h, merge * w], *[[merge * height, merge * width]] * (rows * columns)]
            grids.append([1, *sizes[-1 - rows * columns]])
            if rows:
                grids[-1] += [newlines, rows, columns, *sizes[-1]]
            elif newlines:
                grids[-1] += [newlines]
        tokens += [TEXT] * text[-1]
        ids, _ = model.get_rope_index(
            stub,
            torch.tensor([tokens]),
            mm_token_type_ids=torch.tensor([[int(token == IMAGE) for token in tokens]]),
            target_sizes=torch.tensor(sizes),
            downsample_mode=mode,
        )
        found = ropecli.positions(
            ids[:, 0].numpy(),
            grids=grids,
            text=text,
            mrope="minicpm-v",
            config={"downsample_mode": mode},
        )
        assert found.passed, (grids, text, found.cause)


@pytest.mark.parametrize("module", ["minicpmv4_6", "minicpmv4_7"])
def test_minicpm_v_rotates_by_the_ids_of_its_version(module: str) -> None:
    """The whole model, run: 4.6 counts patches like text, and 4.7 numbers them."""
    import torch
    from transformers import AutoConfig, AutoModel

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
    text = {"model_type": "qwen3_5_text", **sizes, "num_key_value_heads": 1, "head_dim": 32}
    marks = {"image_start_id": 1, "image_end_id": 2, "slice_start_id": 3, "slice_end_id": 4}
    config = AutoConfig.for_model(
        module,
        text_config={
            **text,
            "num_hidden_layers": 1,
            "layer_types": ["full_attention"],
            "vocab_size": 40,
        },
        vision_config={**sizes, "num_hidden_layers": 2, "image_size": 56, "patch_size": 14},
        insert_layer_id=0,
        image_token_id=30,
        video_token_id=31,
        newline_id=5,
        **marks,
    )
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval()
    seen: list[Any] = []
    model.language_model.rotary_emb.register_forward_pre_hook(
        lambda _, given, named: seen.append(named.get("position_ids", given[-1])), with_kwargs=True
    )
    tokens = torch.tensor([[7, 8, 1, *[30] * 4, 2, 5, 9]])
    more = {"mm_token_type_ids": (tokens == 30).int()} if module == "minicpmv4_7" else {}
    with torch.no_grad():
        model(
            input_ids=tokens,
            pixel_values=torch.randn(1, 3, 14, 14 * 64),
            target_sizes=torch.tensor([[8, 8]]),
            **more,
        )
    if module == "minicpmv4_6":
        expected = ropecli.positions(seen[0].numpy(), lengths=[10])
    else:
        image: dict[str, Any] = {"grids": [[1, 8, 8, 1]], "text": [2, 1], "mrope": "minicpm-v"}
        expected = ropecli.positions(seen[0][:, 0].numpy(), **image)
    assert expected.passed, expected.cause


def test_batches_with_images_are_those_of_transformers() -> None:
    """Rows that are padded on the left and on the right, with grids in their order."""
    import torch

    model = class_of("qwen3_vl", "Qwen3VLModel")
    grids, text = [[1, 4, 6], [1, 2, 2], [1, 2, 4]], [[3, 2], [1, 2, 0]]
    kinds = [[0] * 3 + [1] * 6 + [0] * 2, [0] + [1] + [0] * 2 + [1] * 2]
    mask = np.zeros((2, 12), int)
    mask[0, 1:], mask[1, :6] = 1, 1
    every = np.zeros((2, 12), int)
    every[mask > 0] = np.concatenate(kinds)
    stub = SimpleNamespace(
        config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2))
    )
    stub.get_vision_position_ids = model.get_vision_position_ids.__get__(stub)
    ids, _ = model.get_rope_index(
        stub,
        torch.zeros(2, 12, dtype=torch.long),
        torch.tensor(every),
        image_grid_thw=torch.tensor(grids),
        attention_mask=torch.tensor(mask),
    )
    asked: dict[str, Any] = {"grids": grids, "text": text, "mask": mask, "mrope": "qwen3-vl"}
    assert ropecli.positions(ids.numpy(), **asked).passed
    wrong = ids.numpy()[[0, 2, 1]]
    assert str(ropecli.positions(wrong, **asked).cause).startswith("height and width are exchanged")


def test_positions_of_a_running_model_are_recovered() -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "vocab_size": 32,
    }
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **settings))
    expected = ropecli.load_model({"model_type": "llama", **settings})
    tokens = torch.arange(12)[None] % 32
    packed = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]])
    with torch.no_grad(), ropecli.watch(model) as seen:
        model(tokens, position_ids=packed)
    found = seen.positions(expected)
    assert set(found) == {
        f"model.layers.{index}.self_attn.{role}" for index in (0, 1) for role in ("query", "key")
    }
    for each in found.values():
        assert each.passed
        assert each.uncertain == 0
        assert each.got is not None
        assert each.got[0].tolist() == packed[0].tolist()

    rotary = model.model.rotary_emb
    forward = rotary.forward
    rotary.forward = lambda x, position_ids: forward(x, position_ids + (position_ids > 6))
    with torch.no_grad(), ropecli.watch(model) as seen:
        model(tokens)
    for each in seen.positions(expected).values():
        assert each.cause is not None
        assert each.cause.startswith("off by one from token 7 on, too large: expected 7")
