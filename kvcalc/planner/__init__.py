"""The search for a deployment: rows, their order, and why no cheaper one does."""
