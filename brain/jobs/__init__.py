"""The extraction queue: its table, its leases and the worker loop. It is handed the work and knows no extraction."""
