"""Rows of query and key projections from one layout to the other."""
