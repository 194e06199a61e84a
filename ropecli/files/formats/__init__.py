"""Arrays in files: a format a file, read and written a part at a time."""
