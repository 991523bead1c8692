"""Asynchronous tasks: many messages in flight, one thread, and commits without gaps."""
