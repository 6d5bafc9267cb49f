"""FLOPs, seconds and load, in closed form. Pure."""
