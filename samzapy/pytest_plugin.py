"""Pytest fixtures for tests of tasks, available once samzapy is installed.

    task_driver       makes TaskTestDrivers: `task_driver(MyTask, "my-job.properties", partitions=2)`
    test_runner       `samzapy.testing.TestRunner`: `test_runner.of(MyTask).with_config(...).with_input(...).run()`
    manual_clock      a `ManualClock`, for `task_driver(..., clock=manual_clock)`
    memory_cluster    an empty cluster of the memory system; its `name` is for `systems.X.cluster`

Every test gets new objects, closed after the test. The imports are inside the fixtures, and annotations avoid samzapy's
types, so they do not slow down other test runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest


@pytest.fixture
def task_driver() -> Iterator[Callable[..., Any]]:
    """Makes any number of `samzapy.testing.TaskTestDriver`s, with the arguments of the class."""
    from samzapy.testing import TaskTestDriver

    with ExitStack() as opened:
        yield lambda *args, **more: opened.enter_context(TaskTestDriver(*args, **more))


@pytest.fixture
def test_runner() -> Any:
    """The class `samzapy.testing.TestRunner`."""
    from samzapy.testing import TestRunner

    return TestRunner


@pytest.fixture
def manual_clock() -> Any:
    """A `samzapy.testing.ManualClock`."""
    from samzapy.testing import ManualClock

    return ManualClock()


@pytest.fixture
def memory_cluster() -> Iterator[Any]:
    """A new `MemoryCluster` for the test."""
    from samzapy.system.local.factory import MemoryCluster

    cluster = MemoryCluster.named(f"pytest-{uuid4()}")
    yield cluster
    MemoryCluster.forget(cluster.name)
