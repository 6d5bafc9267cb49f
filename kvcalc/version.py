"""The version, in a module of its own so that nothing has to be imported to know it."""

__version__ = "0.1.0"
