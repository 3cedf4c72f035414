"""The queue of snapshots that wait for extraction; it knows no extraction."""
