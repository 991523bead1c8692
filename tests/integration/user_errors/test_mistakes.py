"""The mistakes of a first day, each through the command: the answer is a line that names the key or the line of code,
the value, and what to do. `pytest -k mistakes -s` prints the table: mistake, exit code, seconds, text."""

import re
import socket
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.cli.main import cli
from samzapy.system.kafka import client
from samzapy.system.local.factory import LocalSystemFactory

SETTINGS = SystemSettings("local", "local", properties={"path": "log.db"})
JOB = {
    "job.name": "first",
    "task.class": "MODULE:Task",
    "task.inputs": "local.in",
    "systems.local.samza.factory": "local",
    "systems.local.path": "log.db",
    "systems.local.samza.key.serde": "string",
    "systems.local.samza.msg.serde": "json",
    "systems.local.samza.offset.default": "oldest",
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "local.s-changes",
}
TASK = """\
from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream, WindowableTask

class Task(StreamTask, InitableTask):
    def init(self, context):
        self.store = context.get_store("s")
        self.output = SystemStream("local", "out")

    def process(self, envelope, collector, coordinator):
        BODY

class Windowed(StreamTask, WindowableTask):
    def process(self, envelope, collector, coordinator):
        pass

    def window(self, collector, coordinator):
        pass

class Misspelt(StreamTask):
    def proces(self, envelope, collector, coordinator):
        pass

class WithArguments(StreamTask):
    def __init__(self, size):
        pass

    def process(self, envelope, collector, coordinator):
        pass

class Short(StreamTask):
    def process(self, envelope):
        pass

class Asynchronous(StreamTask):
    async def process(self, envelope, collector, coordinator):
        pass

class UnknownStore(Task):
    def init(self, context):
        context.get_store("counts")
"""
#: The line of `BODY`.
BODY = "MODULE.py:9"
RUN = ("run", "job.properties", "--runner", "local", "--until-end")
KAFKA = {
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "kafka",
    "systems.kafka.consumer.bootstrap.servers": "127.0.0.1:9",
    "systems.kafka.samza.msg.serde": "json",
}
SEND = "collector.send(OutgoingMessageEnvelope({}, key=envelope.key))"


class Mistake(NamedTuple):
    """What the answer has to name: the place (a key, a file, an option), the value, the remedy."""

    code: int
    place: str
    value: str
    remedy: str
    keys: Mapping[str, str | None] = MappingProxyType({})
    body: str = "pass"
    command: tuple = RUN


#: A mistake of the user's own Python: its exception is all that anybody knows.
ITS_EXCEPTION = ""

MISTAKES = {
    "no file": Mistake(2, "config", "none.properties", "not found", command=("run", "none.properties")),
    "a program": Mistake(2, "config", "jobs/count.py", "a pipeline as count:NAME", command=("run", "jobs/count.py")),
    "misspelt command": Mistake(2, "command", "'rum'", "did you mean run?", command=("rum", "job.properties")),
    "misspelt option": Mistake(2, "option", "--untilend", "--until-end", command=(*RUN, "--untilend")),
    "override without =": Mistake(2, "--config", "task.commit.ms", "KEY=VALUE", command=(*RUN, "-c", "task.commit.ms")),
    "misspelt key": Mistake(
        2, "task.comit.ms", "unknown", "task.commit.ms?", {"task.comit.ms": "1"}, command=(*RUN, "--strict")),
    "no name": Mistake(2, "job.name", "required", "e.g. page-views", {"job.name": None}),
    "a comment": Mistake(2, "job.container.count", "'2 # x'", "no comment here", {"job.container.count": "2 # x"}),
    "no dead letters": Mistake(
        2, "task.dead.letter.stream", "task.error.process.policy", "e.g", {"task.error.process.policy": "dead-letter"}),
    "unknown system": Mistake(2, "task.inputs", "'kafkaa'", "known: local", {"task.inputs": "kafkaa.in"}),
    "missing topic": Mistake(3, "topic", "'inn'", "log.db); create it with: samzapy", {"task.inputs": "local.inn"}),
    "no such module": Mistake(
        2, "task.class", "'no_such_tasks:Task'", "next to its file", {"task.class": "no_such_tasks:Task"}),
    "module with .py": Mistake(2, "task.class", "MODULE.py", "without .py", {"task.class": "MODULE.py:Task"}),
    "syntax error": Mistake(2, "MODULE.py, line 9", "SyntaxError", ITS_EXCEPTION, body="self.store.put(1 2)"),
    "constructor with arguments": Mistake(
        2, "task.class", "WithArguments()", "use init", {"task.class": "MODULE:WithArguments"}),
    "misspelt process": Mistake(2, "task.class", "Misspelt", "process(envelope, ", {"task.class": "MODULE:Misspelt"}),
    "wrong signature": Mistake(2, "task.class", "(self, envelope)", "collector", {"task.class": "MODULE:Short"}),
    "async process": Mistake(2, "task.class", "Asynchronous", "CoroutineTask", {"task.class": "MODULE:Asynchronous"}),
    "window never called": Mistake(0, "task.window.ms", "-1", "e.g. to 10s", {"task.class": "MODULE:Windowed"}),
    "unknown store": Mistake(
        1, "stores.counts.factory", "'counts'", "known: s", {"task.class": "MODULE:UnknownStore"}),
    "wrong type into a store": Mistake(
        1, BODY, "local.in[0]@0", "stores.s.msg.serde", {}, "self.store.put(envelope.key, {1})"),
    "wrong type of a key": Mistake(1, BODY, "key 1", "stores.s.key.serde", {}, "self.store.put(1, 1)"),
    "key of a stream without a serde": Mistake(
        1, BODY, "bytes", "samza.key.serde", {"systems.local.samza.key.serde": None}, "self.store.get(envelope.key)"),
    "None into a store": Mistake(1, BODY, "'k0'", "delete the key instead", {}, "self.store.put(envelope.key, None)"),
    "output that is no JSON": Mistake(1, BODY, "got set", "json serde takes", {}, SEND.format("self.output, {1}")),
    "output without serde": Mistake(
        1, BODY, "got dict", "systems.local.samza.msg.serde",
        {"systems.local.samza.msg.serde": None}, SEND.format("self.output, {}")),
    "input without serde": Mistake(
        1, BODY, "TypeError", "systems.local.samza.msg.serde",
        {"systems.local.samza.msg.serde": None}, "envelope.message['a']"),
    "input of another serde": Mistake(
        1, "local.in[0]@0", "got 8", "systems.local.samza.msg.serde", {"systems.local.samza.msg.serde": "integer"}),
    "output to an unknown system": Mistake(
        1, BODY, "'kafak'", "systems.kafak.samza.factory", {}, SEND.format("SystemStream('kafak', 'out'), 1")),
    "output to a missing topic": Mistake(
        3, "topic", "'nowhere'", "samzapy topic create", {}, SEND.format("SystemStream('local', 'nowhere'), 1")),
    "process returns": Mistake(1, BODY.replace("9", "8"), "a dict", "collector.send", {}, "return envelope.message"),
    "no text": Mistake(1, BODY, "E: its", "TypeError", {}, "raise type('E', (Exception,), {'__str__': abs})"),
    "an exception": Mistake(1, BODY, "KeyError: 'b'", ITS_EXCEPTION, {}, "envelope.message['b']"),
    "state folder": Mistake(
        3, "job.logged.store.base.dir", "/dev/null/", "be written", {"job.logged.store.base.dir": "/dev/null/state"}),
    "log folder": Mistake(0, "job.log.dir", "/dev/null/logs", "No log file", {"job.log.dir": "/dev/null/logs"}),
    "different partitions": Mistake(
        0, "task.inputs", "local.in=1 local.other=3", "do not meet", {"task.inputs": "local.in,local.other"}),
    "no broker": Mistake(3, "consumer.bootstrap.servers", "127.0.0.1:9 ", "start the broker", KAFKA),
    "a server that is no broker": Mistake(
        3, "consumer.bootstrap.servers", "127.0.0.1:PORT", "correct ",
        KAFKA | {"systems.kafka.consumer.bootstrap.servers": "127.0.0.1:PORT"}),
    "local state on a cluster": Mistake(
        2, "systems.local.samza.factory", "spark://127.0.0.1:1", "samzapy kafka start",
        command=("run", "job.properties", "--master", "spark://127.0.0.1:1")),
    "no master": Mistake(
        3, "job.spark.master", "127.0.0.1:1: Connection refused", "start it",
        KAFKA | {name: None for name in JOB if name.startswith(("systems.", "stores."))},
        command=("run", "job.properties", "--master", "spark://127.0.0.1:1")),
    "status of a job that does not run": Mistake(
        3, "job 'first'", "status page", "job.page.port", command=("status", "job.properties")),
    "blank for a comma": Mistake(2, "task.inputs", "'local.in local.o'", "commas", {"task.inputs": "local.in local.o"}),
    "partition of an input": Mistake(2, "task.inputs", "'local.in#0'", "system.stream", {"task.inputs": "local.in#0"}),
    "Spark's own key": Mistake(0, "spark.app.name", "no effect", "job.spark.conf.", {"spark.app.name": "first"}),
    "YAML": Mistake(2, "config", "job.yaml", "key=value lines", command=("run", "job.yaml")),
    "no database": Mistake(3, "systems.local.path", "/code)", "open", {"systems.local.path": "code"}),
    "a file for a folder": Mistake(3, "task.checkpoint.path", "log.db/", "Not a directory", {
        "task.checkpoint.factory": "file", "task.checkpoint.path": "log.db"}),
}  # fmt: skip
#: Words that stand for a place which is neither a key nor a line of code.
OTHER_PLACES = r"command|option|config|topic|job '|--config"
PLACE = re.compile(rf"[a-z]+(\.[\w*]+)+|\w+\.py(:|, line )\d+|{OTHER_PLACES}|\S+\[\d+\]@\d+")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the streams of the job; 30 messages are in `local.in`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGGED_STORE_BASE_DIR", raising=False)
    admin, producer = LocalSystemFactory().admin(SETTINGS, "test"), LocalSystemFactory().producer(SETTINGS, "test")
    for stream, partitions in (("in", 1), ("other", 3), ("out", 1)):
        admin.create(StreamSpec(stream, partitions))
    producer.send([OutgoingRecord("in", b"k%d" % number, b'{"a": %d}' % number, 0) for number in range(30)])
    producer.flush()
    yield tmp_path
    producer.close()
    admin.close()


@pytest.fixture
def mute_server():
    """The port of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_answered_with_place_value_and_remedy(name, place, mute_server, monkeypatch, caplog):
    mistake, module = MISTAKES[name], "mistake_" + re.sub(r"\W", "_", name)

    def filled(text):
        return text.replace("MODULE", module).replace("PORT", str(mute_server))

    (place / "code").mkdir()
    (place / "code" / f"{module}.py").write_text(TASK.replace("BODY", mistake.body))
    monkeypatch.syspath_prepend(place / "code")
    monkeypatch.setattr(client, "REACH_S", 1.0)
    pairs = {key: value for key, value in {**JOB, **mistake.keys}.items() if value is not None}
    (place / "job.properties").write_text("".join(f"{key}={filled(value)}\n" for key, value in pairs.items()))
    began = time.monotonic()
    done = CliRunner().invoke(cli, list(mistake.command))
    lines = [line for line in done.stderr.splitlines() if not line.startswith("container 0: ")]
    lines += [record.getMessage() for record in caplog.records]
    errors = [line for line in lines if line.startswith("error: ")] if mistake.code else lines
    sys.stdout.write(f"{name:32} {done.exit_code} {time.monotonic() - began:4.1f} s  {' | '.join(errors)}\n")
    assert done.exit_code == mistake.code, lines
    assert len(errors) == 1, lines
    (said,) = errors
    assert PLACE.search(said), said
    assert all(filled(part) in said for part in (mistake.place, mistake.value, mistake.remedy)), said
