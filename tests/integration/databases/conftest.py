"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this test run; it ends with the run."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()
