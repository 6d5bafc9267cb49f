"""The engines, a folder each with a value ENGINE in `engine.py`.

Nothing lists them: a folder here is an engine that the command line, the answers and the README find.
"""
