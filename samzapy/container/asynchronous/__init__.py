"""Asynchronous tasks: many messages in flight, one thread, and commits of what is done without a gap."""
