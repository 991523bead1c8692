"""Tells whether samzapy became slower: beside stored results, or beside an earlier commit in the same run."""
