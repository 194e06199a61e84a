"""`check --encoding` on released code as it stands: right ones pass, wrong ones fail."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from oracle.released_encodings import RELEASED, Released

import ropecli
from ropecli.errors import FileError, RopecliError

pytestmark = pytest.mark.oracle

#: Numbers of a convention that a user gives, by their names in `set`.
GIVEN = {
    "count": "num_buckets",
    "furthest": "max_distance",
    "bidirectional": "bidirectional",
    "steepest": "bias_max",
}
#: What comes where it is not the verdict of the survey: "refused", "fail" or "pass", and why.
UNLIKE = {
    "Qwen2.5-Omni time steps": "fail: positions are times 1,000",
    "FastSpeech 2 Conformer relative encoding": "fail: returns scaled embeddings, and its table",
    "ViT-MAE position_embeddings": "fail: takes no argument, and has a class token first",
    "DETR sine position embedding, half precision": "pass: positions of small grids are exact",
    "UDOP RelativePositionBias1D": "fail: a mask is needed for its positions",
    "DeBERTa build_relative_position": "fail: it has no buckets",
    "Conditional DETR encode_sinusoidal_position_embedding": "refused: coordinates from 0 to 1",
    "Conditional DETR encode_sinusoidal_position_embedding, 2-D": "refused: the same",
    "Parakeet relative encoding": "refused: 2 * length - 1 rows",
    "SAM positional embedding": "refused: its frequencies are random",
    "x-transformers AlibiPositionalBias of positions": "refused: takes positions of both",
    "LongT5 local compute_bias": "refused: keys of three blocks",
    "DeBERTa v2 disentangled_attention_bias": "refused: scores without their content",
    "Swin relative position index": "refused: no encoding that is checked",
    "Swin SwinRelativePositionBias": "refused: no encoding that is checked",
    "BEiT generate_relative_position_index": "refused: no encoding that is checked",
    "timm gen_relative_position_index": "refused: no encoding that is checked",
    "Phi-4 audio bias": "refused: a bias, not scores",
    "SpeechT5 relative encoding": "refused: embeddings, not scores",
    "ViTDet get_rel_pos": "refused: rows of a table, not scores",
    "x-transformers DynamicPositionBias": "refused: no encoding that is checked",
    "Wav2Vec2-BERT _apply_relative_key_position_encoding": "refused: returns queries as well",
    "XLNet rel_shift_bnij": "refused: scores of keys + queries distances",
    "XLNet rel_attn_core": "refused: weights, after the softmax",
    "x-transformers CoPE": "refused: takes scores, not keys",
    "x-transformers PolarEmbedding": "refused: no encoding that is checked",
    "x-transformers apply_polar_pos_emb of a batch": "refused: no encoding that is checked",
}


def _options(released: Released) -> dict[str, Any]:
    """Return the encoding, what is given of it, and the dtypes in which right code is right."""
    encoding = released.encoding.removesuffix("_2d")
    given = {GIVEN[key]: value for key, value in released.convention.items() if key in GIVEN}
    given = given if encoding in {"t5", "deberta", "alibi"} else {}
    dtypes = None if released.verdict == "wrong" else ("float32",)
    return {"encoding": encoding, "set": given or None, "dtypes": dtypes}


def test_most_are_judged_rightly() -> None:
    assert {*UNLIKE} <= {*RELEASED}
    assert len(RELEASED) - len(UNLIKE) >= 75


@pytest.mark.parametrize("name", RELEASED)
def test_released_code_is_judged(name: str, tmp_path: Path) -> None:
    released = RELEASED[name]
    as_judged = "fail" if released.verdict == "wrong" else "pass"
    wanted, _, _ = UNLIKE.get(name, as_judged).partition(":")
    file = tmp_path / "released.py"
    file.write_text(released.source)
    target = f"{file}:{released.function}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            verdict = ropecli.check(target, isolated=False, **_options(released))
        except FileError as error:
            if "No module named" not in str(error):
                raise
            pytest.skip(str(error))
        except RopecliError:
            assert wanted == "refused"
            return
    assert {True: "pass", False: "fail"}.get(verdict.passed) == wanted, verdict.diagnosis
