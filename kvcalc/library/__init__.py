"""Where presets and model files are found: a name becomes a model."""
