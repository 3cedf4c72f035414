"""HTTP: the only place that knows it."""
