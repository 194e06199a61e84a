"""Golden test vectors: exact rotations, rounded once, for other people's tests."""
