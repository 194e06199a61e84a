"""Calls of every shape: which are made, how they are judged, and what the wrong ones share."""
