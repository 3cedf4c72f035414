"""Configuration: its structs, how a file and the environment are read, its JSON Schema."""
