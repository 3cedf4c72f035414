"""The read-only filesystem tools: who may read what, globs, listings, reading."""
