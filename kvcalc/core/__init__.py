"""What a cache is and what it takes, in bytes. Pure: no files, no terminal, no formats."""
