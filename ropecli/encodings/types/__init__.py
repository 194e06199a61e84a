"""One encoding a file: the file NAME.py holds the one class whose name is NAME."""
