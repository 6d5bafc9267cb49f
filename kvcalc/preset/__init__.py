"""The YAML form of a model."""
