"""The alert of docs/how-to/write/windows.md."""

from alerts import FailedLoginsTask

from samzapy.testing import TaskTestDriver

JOB = {
    "task.inputs": "memory.logins",
    "task.window.ms": "1s",
    "systems.memory.samza.factory": "memory",
    "systems.memory.default.stream.samza.key.serde": "string",
    "systems.memory.default.stream.samza.msg.serde": "json",
    "stores.windows.factory": "rocksdb",
    "stores.windows.key.serde": "string",
    "stores.windows.msg.serde": "json",
    "stores.windows.changelog": "memory.windows",
}


def test_the_third_failure_raises_one_alert():
    with TaskTestDriver(FailedLoginsTask, JOB) as driver:
        for second in (0, 20, 40, 60):
            driver.send("logins", {"failed": True, "at": 1_767_225_600_000 + second * 1000}, key="ann")
        assert driver.outputs("alerts").keys == ["ann"]
