"""Rows of documents and images whose ids are judged."""

from __future__ import annotations

from typing import Any

LENGTHS = [5, 3, 8]
PACKED = [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7]
IMAGE: dict[str, Any] = {"grids": [[1, 4, 6]], "text": [3, 2], "mrope": "qwen2-vl"}
VIDEO: dict[str, Any] = {"grids": [[3, 2, 4]], "text": [3, 2], "mrope": "qwen2.5-vl", "seconds": 2}
CP: dict[str, Any] = {"lengths": [32], "context_parallel": 4, "rank": 2, "scheme": "zigzag"}
