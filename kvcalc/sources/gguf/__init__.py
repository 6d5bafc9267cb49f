"""GGUF files: the header, and what its metadata says of the model."""
