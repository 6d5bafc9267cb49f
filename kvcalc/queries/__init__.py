"""Typed questions in, typed answers out: what the command line and the Python interface both call."""
