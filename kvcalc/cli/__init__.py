"""The command line: joins readers, the core and renderers, and knows nothing that they do not."""
