"""The version, in a file of its own so that `--version` need not import anything else."""

__version__ = "0.1.0"
