"""Cards and machine types: shipped, a user's own, and those of this machine."""
