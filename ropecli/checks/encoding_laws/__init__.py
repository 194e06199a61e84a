"""The laws of each positional encoding."""

from __future__ import annotations

from ropecli.checks.encoding_laws import (
    biases,
    content,
    sinusoidal,
    t5,
    tables,
    transformer_xl,
    xpos,
)
from ropecli.checks.encoding_laws.law import EncodingLaw

#: Each encoding's own, over and above those that all are put to.
OWN: dict[str, tuple[EncodingLaw, ...]] = {
    "alibi": biases.ALIBI,
    "cope": content.COPE,
    "deberta": tables.DEBERTA,
    "fire": biases.FIRE,
    "kerple": biases.KERPLE,
    "learned": tables.LEARNED,
    "nope": content.NOPE,
    "rope": content.ROPE,
    "shaw": tables.SHAW,
    "sinusoidal": sinusoidal.LAWS,
    "t5": t5.LAWS,
    "transformer_xl": transformer_xl.LAWS,
    "tupe": tables.TUPE,
    "xpos": xpos.LAWS,
}
