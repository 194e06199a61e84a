"""How does Llama-3-8B get to 128k in ten minutes?
===============================================

Llama 3 was trained on 8,192 positions. Which of the methods that need no new weights holds 131,072,
and what does each of them do to the frequencies? The file of the one that is chosen is checked
before anything runs.
"""

import ropecli

LLAMA_3 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
}
rope = ropecli.load_model(LLAMA_3).layer().rotary
assert rope is not None
methods = ropecli.scale(rope, original_length=8192, context_length=131_072, name="Llama-3-8B")

picture = methods.figure()
picture.savefig("llama3_to_128k.png")
picture

# %%
# "holds up to" is the length at which a random key would score above a similar one (Men et al.
# 2024). ``linear`` holds, and loses neighbouring tokens: no pair keeps its frequency.

methods

# %%
# YaRN keeps the 19 fastest pairs. ``lint`` finds no fault with its settings:

scaling = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 8192}
extended = LLAMA_3 | {"max_position_embeddings": 131_072, "rope_scaling": scaling}
assert not ropecli.lint(extended)
ropecli.load_model(extended)
