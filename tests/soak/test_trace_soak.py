"""`trace` on every rotary architecture of the installed Transformers, by its default configuration.

`pytest -m oracle tests/soak/test_trace_soak.py`, about 15 minutes.
"""

from __future__ import annotations

import re

import pytest
from oracle.traced import config_of, rotary_types

import ropecli

pytestmark = pytest.mark.oracle

#: Reasons for models that take no tokens, or do not rotate without further keys.
REASONS = "no model of tokens takes a|missing .* required positional|not known to have one|has none"
#: Models that the library cannot build or run with tokens alone by default.
REFUSED = """
bamba blt blt_local_decoder blt_local_encoder chameleon clvp clvp_encoder cohere_compass
csm csm_depth_decoder_model dbrx deepseek_ocr2 deepseek_ocr2_text dia dia_decoder
diffusion_gemma diffusion_gemma_text dinov3_vit dots1 dots3_note dots3_note_text esm
gemma4_unified_assistant glm46v glm4v glm4v_moe glm_image glmga granitemoehybrid hrm_text
hunyuan_vl idefics kyutai_speech_to_text lfm2_moe mimi mimi_decoder mlcd mlcd_vision_model
moonshine moonshine_streaming nemotron3_5_transcribe_asr_audio nemotron3_diarization_audio
pe_audio_video_encoder pe_video_encoder pocket_tts_audio_tokenizer
pocket_tts_audio_tokenizer_decoder qwen2_5_omni_talker
qwen3_omni_moe
qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text qwen3_omni_moe_thinker
qwen4_exp sapiens2 seamless_m4t step3p5 step3p7 t5gemma2_decoder t5gemma2_encoder
t5gemma2_text voxtral_realtime voxtral_realtime_encoder voxtral_realtime_text zamba2
""".split()  # noqa: SIM905
#: Models that do not rotate as they should.
PARTING = {
    "hunyuan_vl_text": "lengths are not kept",  # the sine of a pair is of another axis
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    wanted = "not oracle" not in metafunc.config.getoption("markexpr")
    metafunc.parametrize("name", rotary_types() if wanted else ["of the library"])


def trace(name: str) -> ropecli.Trace | str:
    """Return the verdict, or the reason for its absence."""
    try:
        return ropecli.trace(config_of(name))
    except ropecli.RopecliError as error:
        return str(error)


def test_layers_apply_what_the_file_says(name: str) -> None:
    found = trace(name)
    if isinstance(found, str):
        assert name in REFUSED or re.search(REASONS, found), found
        return
    assert name not in REFUSED
    notes = {each.note or "" for each in found.layers if each.agrees is False}
    assert found.passed is (name not in PARTING), notes
    assert all(PARTING[name] in note for note in notes)
