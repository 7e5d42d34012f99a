"""One file for each program that the table measures; each runs in that program's own environment."""
