"""Arrays on disk: strict readers, writers that leave a whole file or none, and streaming."""
