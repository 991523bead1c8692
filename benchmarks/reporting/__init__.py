"""Repeats become figures, ratios, tables and a file, and are held against bounds and against an earlier commit."""
