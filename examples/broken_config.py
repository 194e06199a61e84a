"""What does a misspelt key do?
============================

attn_factor multiplies the factor on cos and sin in the code of YaRN's authors, and here was to make
it 1. Transformers has no such key and refuses none: the factor is 1.1386, and every score is higher
by its square.
"""

import numpy as np
from matplotlib.figure import Figure

import ropecli

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000,
}
WRITTEN = CONFIG | {"rope_scaling": YARN | {"attn_factor": 0.8782488562869419}}
MEANT = CONFIG | {"rope_scaling": YARN | {"attention_factor": 1.0}}

for finding in ropecli.lint(WRITTEN):
    print(f"{finding.level} {finding.rule}  {finding.key}\n  {finding.message}\n  {finding.hint}")

picture = Figure(layout="constrained")
axes = picture.subplots()
for name, config, line in (("as written", WRITTEN, "-"), ("as meant", MEANT, "--")):
    rope = ropecli.load_model(config).layer().rotary
    assert rope is not None
    ones = ropecli.rotate(np.ones((256, 128)), rope)
    axes.plot(ones @ ones[0], line, label=f"{name}: cos and sin times {rope.attention_factor:.4f}")
axes.set(xlabel="distance", ylabel="score of q = k = (1, 1, ...)", ylim=(0, None))
picture.legend(loc="outside lower center")
picture.savefig("broken_config.png")
picture
