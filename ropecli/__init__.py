"""Analyse and verify positional encodings of transformers, rotary position embedding first.

Names are loaded on first use, so that `import ropecli` brings in neither NumPy nor Numba.
"""

from __future__ import annotations

from ropecli._version import __version__

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this file
if TYPE_CHECKING:
    from typing import Any

    from ropecli.analyses.decay import Decay, decay
    from ropecli.analyses.expected import Expected, expected_score
    from ropecli.analyses.info import Info, info
    from ropecli.analyses.invariance import Invariance, invariance
    from ropecli.analyses.linear import Linear, linear
    from ropecli.checks.identify import Identification, Match, identify
    from ropecli.checks.implementation import Verdict, check
    from ropecli.checks.verify import Verification, verify
    from ropecli.checks.verify_encoding import verify_encoding
    from ropecli.encodings import Encoding, encoding
    from ropecli.errors import ArgumentError, ArgumentTypeError, FileError, RopecliError
    from ropecli.files.compare import Compared, compare_file
    from ropecli.files.encode import encode_file
    from ropecli.files.encoded import Encoded, EncodedArray
    from ropecli.files.many import EncodedFiles, encode_files
    from ropecli.files.permute.permute import Permuted, PermutedTensor, permute
    from ropecli.files.permute.proof import PermutationProof
    from ropecli.models.diff import Difference, FieldDifference, LayerDifference, Phase, diff
    from ropecli.models.lint.rule import Finding
    from ropecli.models.lint.run import lint
    from ropecli.models.load import load_model
    from ropecli.models.model import Layer, Model
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary, rope
    from ropecli.rotary.apply import rotate

_HOMES = {
    "ropecli.analyses.decay": ("Decay", "decay"),
    "ropecli.analyses.expected": ("Expected", "expected_score"),
    "ropecli.analyses.info": ("Info", "info"),
    "ropecli.analyses.invariance": ("Invariance", "invariance"),
    "ropecli.analyses.linear": ("Linear", "linear"),
    "ropecli.checks.identify": ("Identification", "Match", "identify"),
    "ropecli.checks.implementation": ("Verdict", "check"),
    "ropecli.checks.verify": ("Verification", "verify"),
    "ropecli.checks.verify_encoding": ("verify_encoding",),
    "ropecli.encodings": ("Encoding", "encoding"),
    "ropecli.errors": ("ArgumentError", "ArgumentTypeError", "FileError", "RopecliError"),
    "ropecli.files.compare": ("Compared", "compare_file"),
    "ropecli.files.encode": ("encode_file",),
    "ropecli.files.encoded": ("Encoded", "EncodedArray"),
    "ropecli.files.many": ("EncodedFiles", "encode_files"),
    "ropecli.files.permute.permute": ("Permuted", "PermutedTensor", "permute"),
    "ropecli.files.permute.proof": ("PermutationProof",),
    "ropecli.models.diff": ("Difference", "FieldDifference", "LayerDifference", "Phase", "diff"),
    "ropecli.models.lint.rule": ("Finding",),
    "ropecli.models.lint.run": ("lint",),
    "ropecli.models.load": ("load_model",),
    "ropecli.models.model": ("Layer", "Model"),
    "ropecli.models.settings": ("Settings",),
    "ropecli.rotary": ("Rotary", "rope"),
    "ropecli.rotary.apply": ("rotate",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "Compared",
    "Decay",
    "Difference",
    "Encoded",
    "EncodedArray",
    "EncodedFiles",
    "Encoding",
    "Expected",
    "FieldDifference",
    "FileError",
    "Finding",
    "Identification",
    "Info",
    "Invariance",
    "Layer",
    "LayerDifference",
    "Linear",
    "Match",
    "Model",
    "PermutationProof",
    "Permuted",
    "PermutedTensor",
    "Phase",
    "RopecliError",
    "Rotary",
    "Settings",
    "Verdict",
    "Verification",
    "__version__",
    "check",
    "compare_file",
    "decay",
    "diff",
    "encode_file",
    "encode_files",
    "encoding",
    "expected_score",
    "identify",
    "info",
    "invariance",
    "linear",
    "lint",
    "load_model",
    "permute",
    "rope",
    "rotate",
    "verify",
    "verify_encoding",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        msg = f"module 'ropecli' has no attribute {name!r}"
        raise AttributeError(msg)
    import importlib

    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
