"""Runs of the hand: its client, the registry of live runs, collected one-shot runs."""
