"""Serves the coordinator to containers, browsers and tools: connections, TLS, access, views and store queries."""
