"""Many sizes of one model over ranges of options."""
