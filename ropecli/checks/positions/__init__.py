"""Position ids: those that packing, padding, parallelism and grids of images ask for.

`rows.py` says which documents a row holds and `vision.py` numbers grids; `parts.py` takes a part of
the row, `causes.py` names what wrong ids are instead, and `check.py` puts them together.
`recover.py` finds the positions that vectors were rotated by.
"""
