"""What can go wrong, and the exit code that the command line gives for it.

A message says what was wrong, what was given and what is allowed, in one line.
"""


class RopecliError(Exception):
    """A mistake of the caller's or of the input's, never a bug in ropecli."""

    exit_code = 2  #: What the command line returns for it.


class ArgumentError(RopecliError, ValueError):
    """An argument of the right type with a value that is not allowed."""


class ArgumentTypeError(RopecliError, TypeError):
    """An argument of a type that is not allowed."""


class FileError(RopecliError, ValueError):
    """A file that cannot be read, written, or understood."""
