"""Where commands and engines meet: which engine a command starts, and how an engine is started."""
