"""Logs as bytes: the lines in them that matter, found in bounded time and memory."""
