"""What turns and memory both do to a history: harness XML, rounds, compaction."""
