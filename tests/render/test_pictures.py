"""Every result's picture is legible, and clear to colour-blind readers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from pkgutil import walk_packages

import numpy as np
import pytest
from helpers import ROOT
from matplotlib.figure import Figure
from pictures import assert_clear, assert_legible, least_difference

import ropecli
from ropecli import Rotary
from ropecli.render.figure import COLOURS
from ropecli.results import Drawable

PLAIN = Rotary(head_dim=32)
LARGE = Rotary(head_dim=32, base=500_000.0)
Q, K, V = np.random.default_rng(0).standard_normal((3, 16, 32))
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
CONFIG = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096}
