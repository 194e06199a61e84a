"""`check --encoding` on released functions as they stand, with the verdict that each deserves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oracle.released_code import Released, is_installed
from oracle.released_encodings import RELEASED

import ropecli
from ropecli.errors import RopecliError

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

#: What settings of the formula are called in the survey.
SETTINGS = {
    "count": "num_buckets",
    "furthest": "max_distance",
    "bidirectional": "bidirectional",
    "steepest": "bias_max",
}
WITH_SETTINGS = {"t5", "deberta", "alibi"}
#: Functions that no verdict is given on, and why.
NOT_CALLED = {
    **dict.fromkeys(
        [
            "Conditional DETR encode_sinusoidal_position_embedding",
            "Conditional DETR encode_sinusoidal_position_embedding, 2-D",
        ],
        "takes coordinates from 0 to 1",
    ),
    **dict.fromkeys(
        ["Parakeet relative encoding", "FastSpeech 2 Conformer relative encoding"],
        "has a row for each distance in both directions",
    ),
    "ViT-MAE position_embeddings": "takes nothing, and has a row for the class",
    "SAM positional embedding": "random frequencies: no encoding that has a formula",
    "LongT5 local compute_bias": "keys of three blocks",
    "UDOP RelativePositionBias1D": "takes the bias of words on a page",
    "DeBERTa v2 disentangled_attention_bias": "takes weights of a layer",
    **dict.fromkeys(
        [
            "Swin relative position index",
            "Swin SwinRelativePositionBias",
            "BEiT generate_relative_position_index",
            "timm gen_relative_position_index",
        ],
        "an index of a window, which no paper has a formula of",
    ),
    "x-transformers DynamicPositionBias": "a network, which no paper has a formula of",
    **dict.fromkeys(
        ["Phi-4 audio bias", "SpeechT5 relative encoding", "ViTDet get_rel_pos"],
        "a table by distance, and no scores",
    ),
    "Wav2Vec2-BERT _apply_relative_key_position_encoding": "returns queries as well",
    "XLNet rel_shift_bnij": "takes as many columns as queries and keys",
    "XLNet rel_attn_core": "returns the output of attention",
    "x-transformers CoPE": "takes masked scores",
    **dict.fromkeys(
        ["x-transformers PolarEmbedding", "x-transformers apply_polar_pos_emb of a batch"],
        "a head dim of its own",
    ),
}
INSTALLED_AT_LEAST = 70  #: Functions that are judged where only the extra `oracles` is installed.


def verdict_of(entry: Released, folder: Path) -> str:
    """What `check` says of an entry: "pass", "fail", or the error."""
    file = folder / "code_of_a_user.py"
    file.write_text(entry.source)
    of_encoding = entry.encoding.removesuffix("_2d")
    given = {SETTINGS[k]: v for k, v in entry.convention.items() if k in SETTINGS}
    options: dict[str, Any] = {"set": given} if given and of_encoding in WITH_SETTINGS else {}
    if entry.verdict != "wrong":  # half precision is what most wrong ones are wrong in
        options["dtypes"] = "float32"
    try:
        target = f"{file}:{entry.function}"
        verdict = ropecli.check(target, encoding=of_encoding, isolated=False, **options)
    except RopecliError as error:
        return str(error)
    return "pass" if verdict.passed else "fail"


def judged() -> list[str]:
    return [name for name in RELEASED if name not in NOT_CALLED and is_installed(RELEASED[name])]


@pytest.mark.parametrize("name", judged())
def test_released_functions_get_their_verdict(name: str, tmp_path: Path) -> None:
    wanted = "fail" if RELEASED[name].verdict == "wrong" else "pass"
    assert verdict_of(RELEASED[name], tmp_path) == wanted


@pytest.mark.parametrize("name", [each for each in NOT_CALLED if is_installed(RELEASED[each])])
def test_what_is_not_called_gets_no_verdict(name: str, tmp_path: Path) -> None:
    assert verdict_of(RELEASED[name], tmp_path) not in {"pass", "fail"}


def test_enough_is_judged() -> None:
    assert len(judged()) >= INSTALLED_AT_LEAST
