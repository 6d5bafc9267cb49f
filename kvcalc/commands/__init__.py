"""Texts that start servers: shell, compose files and manifests, flags, versions."""
