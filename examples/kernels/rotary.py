"""RoPE as PyTorch repositories often have it, with a defect: positions are counted in bfloat16."""

import torch


class Rotary:
    """Rotate x (batch, sequence, heads, dim), whose first position is the offset."""

    def __init__(self, dim: int, base: float = 10000.0, max_position: int = 4096) -> None:
        inv_freq = 1 / base ** (torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(max_position, dtype=torch.bfloat16).float(), inv_freq)
        self.cos = torch.cat([angles, angles], dim=-1).cos()
        self.sin = torch.cat([angles, angles], dim=-1).sin()

    def forward(self, x: torch.Tensor, offset: int = 0) -> torch.Tensor:
        """Return x rotated, in its dtype."""
        cos = self.cos[offset : offset + x.shape[1], None].to(x.dtype)
        sin = self.sin[offset : offset + x.shape[1], None].to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], dim=-1) * sin
