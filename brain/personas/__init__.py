"""Personas: who the model is, and which tools it may use."""
