"""A task that forks: its children neither commit nor close anything of the job, whatever way they end."""

from collections import Counter
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams, key_of, settings_of

from samzapy.api.system import OutgoingRecord, StreamSpec

MESSAGES = 400
#: What the log says of each child, by the way it ends (`forking_task`).
SAID = {
    "exit": "because only its parent runs the container (Partition",
    "raise": "RuntimeError: of the child",
    "use": "was opened by the parent of this process",
}


@pytest.fixture
def job(tmp_path):
    return {
        "job.name": "forks",
        "task.class": "forking_task:Forking",
        "task.inputs": "sys.in",
        "task.commit.ms": "50",
        "task.guarantee": "exactly-once",
        "systems.sys.samza.factory": "local",
        "systems.sys.path": str(tmp_path / "local.db"),
        "systems.sys.default.stream.samza.offset.default": "oldest",
        "systems.sys.default.stream.samza.key.serde": "string",
        "systems.sys.default.stream.samza.msg.serde": "json",
        "stores.counts.factory": "rocksdb",
        "stores.counts.key.serde": "string",
        "stores.counts.msg.serde": "json",
        "stores.counts.changelog": "sys.forks-counts",
    }


def test_children_of_a_task_end_alone_and_leave_the_job_as_it_is(job, tmp_path):
    (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
    streams = Streams(settings_of(job, "sys"))
    for stream in ("in", "out"):
        streams.admin.create(StreamSpec(stream, 2))
    producer = streams.producer()
    producer.send([OutgoingRecord("in", key_of(n).encode(), b"%d" % n) for n in range(MESSAGES)])
    producer.flush()
    producer.close()
    code = str(Path(__file__).with_name("forking_task.py"))
    run = JobProcess(tmp_path, "job.properties", "--runner", "local", "--until-end", "--py-files", code)
    try:
        assert run.wait() == 0, run.errors
    finally:
        run.close()
    assert "container 0: failed" not in run.errors
    for said in SAID.values():
        assert said in run.errors
    assert run.errors.count("only its parent runs the container") == len(SAID) + 1
    outputs = Counter(int(value) for batch in streams.read("out") for value in batch.values)
    assert outputs == Counter(range(MESSAGES))
    held = {key.decode(): int(value) for part in streams.replay("forks-counts") for key, value in part.items()}
    assert held == Counter(map(key_of, range(MESSAGES)))
