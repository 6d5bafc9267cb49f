"""Files of requests become traces: CSV, JSON lines and Parquet, packed or not, by the names of their columns."""
