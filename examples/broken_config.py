"""What does a misspelt key do? Its author meant one thing, and something else happens."""

import ropecli

CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 4.0,
        "attn_factor": 0.8782488562869419,
        "original_max_position_embeddings": 32_768,
    },
}

for finding in ropecli.lint(CONFIG):
    print(f"{finding.level} {finding.rule}  {finding.key}")
    print(f"  {finding.message}\n  {finding.hint}")

rotary = ropecli.load_model(CONFIG).layer().rotary
assert rotary is not None
print(f"Transformers multiplies cos and sin by {rotary.attention_factor:.4f}")
