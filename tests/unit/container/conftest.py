"""What the tests of containers share."""

import pytest

from samzapy.failpoints import disarm


@pytest.fixture(autouse=True)
def nothing_armed():
    """No fail point outlasts its test."""
    yield
    disarm()
