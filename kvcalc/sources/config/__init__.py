"""config.json: a table from model types to how each is read."""
