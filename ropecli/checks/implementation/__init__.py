"""Check of an implementation by somebody else.

A check is a chain. A call (`interface`, `calling`) gives rows, `oracle` the rows expected with
their tolerance, `judge` a verdict on them, and `diagnosis` names the difference. `probe` makes the
first calls and chooses the oracle; `laws` say which calls follow. A wrong layout, for example, is
found by `laws.recognition`: rows are off by more than `Oracle.truth` allows.
"""
