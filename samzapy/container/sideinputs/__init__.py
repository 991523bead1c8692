"""Stores that are filled from streams: before their task starts, and from then on."""
