"""Tools and runs that are killed at random moments, alone or two at once: the job's next start works, and its state is
exact."""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rigs.numbered_stream import Streams, expected, key_of, logged_stores, settings_of
from zombie_job import differences

from samzapy.api.system import OutgoingRecord, StreamSpec

ROUNDS = 4
SEED = 20
CODE = Path(__file__).parents[2] / "jobs"
RUN = ("run", "job.properties", "--runner", "local")
TO_THE_END = (*RUN, "--until-end")
COPY = ("store", "copy", "job.properties", "counts", "--overwrite")
REPLAY = ("replay", "job.properties", "--until", "sys.in[0]@150")
ELSEWHERE = ("-c", "job.logged.store.base.dir=elsewhere")
#: What is started, one shortly after the other, and killed.
KILLED = {
    "store copy": (COPY,),
    "two copies": (COPY, COPY),
    "copy while a run starts": (COPY, TO_THE_END),
    "replay": (REPLAY,),
    "replay of a running job": (RUN, REPLAY),
    "a take-over": (RUN, RUN),
    "snapshots, which the next start downloads": (RUN, (*RUN, *ELSEWHERE)),
}


class KilledJob:
    """The job `last_and_count` on the embedded system, with a snapshot after each commit."""

    def __init__(self, folder):
        backups = {"backup.path": f"file://{folder}/backup", "backup.interval.ms": "0"}
        self._folder = folder
        #: The changelog and serde of `counts`, now and after the next copy.
        self._forms = [("killed-counts-changelog", "json"), ("killed-counts-copy", "msgpack")]
        self._written = 0
        self._keys = {
            "job.name": "killed",
            "job.spark.lease.ms": "2000",
            "task.class": "last_and_count:LastAndCount",
            "task.inputs": "sys.in",
            "task.commit.ms": "200",
            "task.guarantee": "exactly-once",
            "systems.sys.samza.factory": "local",
            "systems.sys.path": str(folder / "local.db"),
            "systems.sys.default.stream.samza.offset.default": "oldest",
            "systems.sys.default.stream.samza.key.serde": "string",
            "systems.sys.default.stream.samza.msg.serde": "json",
            "job.logged.store.base.dir": str(folder / "state"),
            "test.output": "sys.out",
            **logged_stores("sys.killed", **backups),
        }
        self._streams = Streams(settings_of(self._keys, "sys"))
        for stream in ("in", "out"):
            self._streams.admin.create(StreamSpec(stream, 2))

    def send(self, count):
        """The next numbers into the input."""
        numbers = range(self._written, self._written + count)
        self._written += count
        producer = self._streams.producer()
        producer.send([OutgoingRecord("in", key_of(n).encode(), b"%d" % n) for n in numbers])
        producer.flush()
        producer.close()

    def use_the_copy(self):
        """Name the copy of `counts` in the job file."""
        self._forms.reverse()

    def start(self, command):
        (changelog, serde), (copy, other) = self._forms
        keys = self._keys | {"stores.counts.changelog": f"sys.{changelog}", "stores.counts.msg.serde": serde}
        if command == COPY:
            command = (*COPY, "--to", f"sys.{copy}", "--set", f"msg.serde={other}")
        (self._folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        environ = {**os.environ, "TMPDIR": str(self._folder), "PYTHONPATH": str(CODE)}
        samzapy = str(Path(sys.executable).with_name("samzapy"))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([samzapy, *command], cwd=self._folder, env=environ, **pipes)

    def finish(self, command):
        """Run the command to its end; its exit code and what it says."""
        process = self.start(command)
        try:
            said, _ = process.communicate(timeout=90)
        finally:
            process.kill()
        return process.returncode, said

    def lose_disks(self):
        shutil.rmtree(self._folder / "state", ignore_errors=True)

    def left_behind(self):
        """The temporary folders of tools."""
        return [path.name for path in self._folder.glob("samzapy-*")]

    def measured(self):
        last, counts = expected(self._written)
        held = {"last": {}, "counts": {}}
        for store, entries in held.items():
            changelog, serde = ("killed-last-changelog", "json") if store == "last" else self._forms[0]
            for part in self._streams.replay(changelog):
                # A small number is one byte in msgpack, and its text in JSON.
                of_text = serde == "json"
                entries |= {key.decode(): int(value) if of_text else value[0] for key, value in part.items()}
        outputs = Counter(int(value) for batch in self._streams.read("out") for value in batch.values)
        return {
            "guarantee": "exactly-once",
            "system": "local",
            "events": self._written,
            "lost": self._written - len(outputs),
            "duplicated": sum(outputs.values()) - len(outputs),
            "mismatches": differences(held["last"], last) + differences(held["counts"], counts),
        }


@pytest.mark.parametrize("killed", KILLED)
def test_what_is_killed_leaves_a_job_that_starts_and_is_exact(killed, tmp_path, outcome):
    chance, commands, job = random.Random(f"{SEED} {killed}"), KILLED[killed], KilledJob(tmp_path)
    job.send(400)
    assert job.finish(TO_THE_END)[0] == 0
    faults = 0
    # A copy starts a Spark.
    for _ in range(ROUNDS // 2 if COPY in commands else ROUNDS):
        pauses = [chance.uniform(0.1, 10.0 if COPY in commands else 2.0) for _ in commands]
        started = []
        for command, pause in zip(commands, pauses, strict=True):
            started.append(job.start(command))
            job.send(50)
            try:
                started[-1].wait(pause)
            except subprocess.TimeoutExpired:
                faults += 1
        for process in chance.sample(started, len(started)):
            process.kill()
            said, _ = process.communicate(timeout=30)
            assert "Traceback" not in said, (pauses, said)
        if COPY in commands:
            code, said = job.finish(COPY)
            # Two: it was complete before the kill.
            assert code == 0 or (code == 2 and "the store was copied to" in said), (pauses, said)
            job.use_the_copy()
        if "snapshots" in killed:
            job.lose_disks()
        job.send(50)
        code, said = job.finish(TO_THE_END)
        assert code == 0, (pauses, said)
    job.finish(REPLAY)
    job.finish(("store", "count", "job.properties", "counts"))
    assert len(job.left_behind()) <= (COPY in commands) * 2 * ROUNDS, "folders of killed tools"
    outcome(f"SIGKILL at random: {killed}", faults=faults, **job.measured())
