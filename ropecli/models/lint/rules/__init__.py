"""The rules, one file per theme; a rule exists by being defined in one of them."""
