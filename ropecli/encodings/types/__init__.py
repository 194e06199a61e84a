"""One encoding per file: NAME.py holds the class whose name is NAME."""
