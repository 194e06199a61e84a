"""The encode command."""


def encode() -> None:
    """Rotate."""
