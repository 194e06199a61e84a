"""Calls of an implementation, whatever its convention, and the process in which its code runs."""
