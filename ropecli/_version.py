"""The version, in its own file so that `--version` imports nothing else."""

__version__ = "0.2.0"
