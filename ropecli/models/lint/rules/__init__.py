"""The rules, one file a subject; a rule exists by being defined in one of them."""
