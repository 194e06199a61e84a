"""Analyse and verify positional encodings of transformers, rotary position embedding first.

Names are loaded on first use, so that `import ropecli` brings in neither NumPy nor Numba.
"""


def _declared_homes() -> dict[str, str]:
    """Return the module of each public name, as the stub next to this file declares them.

    It is read as data, because importing a parser, or typing, takes longer than all the rest.
    """
    stub = __loader__.get_data(f"{__file__}i").decode()
    words = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return dict(sorted((name, home) for _, home, _, name, *_ in words))


_HOMES = _declared_homes()
__all__ = list(_HOMES)
_RENAMED = {
    "Seen": "Recording",
    "Coverage": "FrequencyTable",
    "coverage": "frequency_table",
    "bound": "decay",
    "chunks": "usage",
    "Chunks": "Usage",
    "decay_map": "rotate",
    "verify_encoding": "check",
    "EncodingVerification": "EncodingVerdict",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        now = f"; it is {_RENAMED[name]} now" if name in _RENAMED else ""
        raise AttributeError(f"module 'ropecli' has no attribute {name!r}{now}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
