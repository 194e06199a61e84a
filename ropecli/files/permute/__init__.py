"""Conversion of query and key weights from one layout to the other, with a proof."""
