"""Calls of every shape: which are made, how they are checked, and what the wrong ones share."""
