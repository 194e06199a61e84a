"""Rotations that the layers of a running PyTorch model apply to queries and keys.

`watch` looks at a model while it runs: it fills a `Recording`. `verdict` judges it by `identify`,
with `differences` in words; `small` builds a small model of a config.json to watch.
"""

from __future__ import annotations

from ropecli.checks.trace.small import trace
from ropecli.checks.trace.verdict import Recording, Trace, TracedLayer
from ropecli.checks.trace.watch import watch

__all__ = ["Recording", "Trace", "TracedLayer", "trace", "watch"]
