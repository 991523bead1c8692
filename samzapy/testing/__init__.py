"""The test kit for users' tasks; the product's own tests use it too.

    TaskTestDriver    a task, a message at a time: the test controls time, commits and crashes
    TestRunner        a whole job over given inputs, to its end
    open_store        one store, exactly as a job would get it
    ManualClock       a clock that a test moves

For fixtures of pytest see samzapy.pytest_plugin.
"""

from samzapy.testing.driver import ManualClock, TaskTestDriver
from samzapy.testing.job import Outputs
from samzapy.testing.runner import FinishedRun, Input, TestRunner
from samzapy.testing.store import OpenStore, open_store

__all__ = ["FinishedRun", "Input", "ManualClock", "OpenStore", "Outputs", "TaskTestDriver", "TestRunner", "open_store"]
