"""What lint says of one key of a file."""

from __future__ import annotations

from dataclasses import dataclass

#: From what breaks a model to what is merely worth knowing.
LEVELS = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One defect of a file, or one place where stacks read it differently."""

    rule: str  #: The rule's stable id, such as "R012".
    level: str  #: "error", "warning" or "note".
    key: str  #: The dotted path of the key in the file; empty for the file as a whole.
    message: str  #: What happens because of it, with numbers computed from the file.
    hint: str  #: The cure.
