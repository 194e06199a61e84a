"""Is one config.json one model?
=============================

gpt-oss-20b's own settings, read by Transformers and by four others. Two compute something else, and
the figure shows from which position on it matters.
"""

import ropecli

GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "head_dim": 64,
    "max_position_embeddings": 131_072,
    "rope_theta": 150_000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}

reference = ropecli.load_model(GPT_OSS)
for stack in ("vllm", "llama.cpp", "mlx-lm", "paper"):
    (layer,) = ropecli.diff(reference, ropecli.load_model(GPT_OSS, reading=stack)).layers
    if layer.same:
        print(f"{stack:<10} the same as Transformers")
    else:
        first, last = layer.first_position_over["1"], layer.phase[-1]
        print(
            f"{stack:<10} off by a radian from position {first:,}, "
            f"by {last.max_radians:.0f} at {last.position:,}"
        )

picture = ropecli.diff(reference, ropecli.load_model(GPT_OSS, reading="llama.cpp")).figure()
picture.savefig("one_file_two_stacks.png")
picture
