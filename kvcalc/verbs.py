"""Every verb that the command line has or will have.

A verb is one word of letters and a preset's name never is, so that no verb added later can take a model's name away.
"""

__all__ = ["VERBS"]

VERBS = ("size", "plan", "sweep", "compare", "simulate", "tradeoff", "check", "verify", "models", "gpus", "preset")
