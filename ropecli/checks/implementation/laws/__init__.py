"""The laws that an implementation is judged by, a subject a file."""
