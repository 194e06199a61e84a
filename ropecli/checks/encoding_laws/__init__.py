"""The laws of each positional encoding."""

from __future__ import annotations

from ropecli.checks.encoding_laws import biases, positions, tables
from ropecli.checks.encoding_laws.subject import EncodingSubject
from ropecli.checks.law import Law

#: The laws of each encoding alone, beyond those of all.
OWN: dict[str, tuple[Law[EncodingSubject], ...]] = {
    "alibi": biases.ALIBI,
    "cope": positions.COPE,
    "deberta": tables.DEBERTA,
    "fire": biases.FIRE,
    "kerple": biases.KERPLE,
    "learned": tables.LEARNED,
    "nope": positions.NOPE,
    "rope": positions.ROPE,
    "shaw": tables.SHAW,
    "sinusoidal": positions.SINUSOIDAL,
    "t5": biases.T5,
    "transformer_xl": tables.TRANSFORMER_XL,
    "tupe": tables.TUPE,
    "xpos": positions.XPOS,
}
