"""`python -m kvcalc`."""

from kvcalc.cli.main import main

main()
