"""The engines, one module each with a value ENGINE. Modules that begin with an underscore are parts of others.

Nothing lists them: a module in this folder is an engine that the command line, the answers and the README find.
"""
