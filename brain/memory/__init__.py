"""The external long-term memory (ELTM): a diary attached to a small graph."""
