"""Renderers: a report or a document in, text out. Only `table` knows rich."""
