"""Answers as documents of values and as reports of words; nothing is printed here."""
