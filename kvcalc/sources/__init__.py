"""Readers of model files: each turns what it finds into the mapping of a preset."""
