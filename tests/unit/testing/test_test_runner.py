from __future__ import annotations

import pytest
from tested_tasks import JOB, Counting

from samzapy import EndOfStreamListenerTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.errors import ConfigError, StoreError
from samzapy.system.local.factory import MemoryCluster
from samzapy.testing import Input, TestRunner

COUNTING = TestRunner.of(Counting).with_config(JOB)


def test_a_job_runs_to_the_ends_of_its_inputs():
    run = COUNTING.with_input("in", [("a", "x"), ("b", "x"), ("a", "x")], partitions=2).run()
    assert sorted(run.outputs("out").pairs) == [("a", 1), ("a", 2), ("b", 1)]
    assert run.store("counts") == {"a": 2, "b": 1}
    assert sorted(run.changelog("counts").pairs) == [("a", 2), ("b", 1)]
    assert run.status.processed == 3
    assert run.status.remaining == 0


def test_messages_without_a_key_go_to_the_partitions_in_turn_and_an_input_says_where():
    # murmur2("21") is -973932308 (Kafka's UtilsTest): positive 1173551340, divisible by 3.
    messages = ["a", "b", Input("c"), Input("d", partition=2, timestamp=7), Input("e", "21", headers=[("h", b"1")])]
    run = TestRunner.of(Passing).with_config(JOB).with_input("in", messages, partitions=3).run()
    assert [run.outputs("in", number).messages for number in range(3)] == [["a", "e"], ["b"], ["c", "d"]]
    assert run.outputs("in", 2)[1].event_time == 7
    assert run.outputs("in", 0)[1].headers == [("h", b"1")]


def test_the_outputs_of_one_run_are_inputs_of_the_next():
    first = COUNTING.with_input("in", [("a", 1), ("a", 1), ("b", 1)]).run()
    second = COUNTING.with_input("in", first.outputs("out")).run()
    assert second.store("counts") == {"a": 2, "b": 1}
    assert [each.event_time for each in second.outputs("in")] == [each.event_time for each in first.outputs("out")]


class Passing(StreamTask, EndOfStreamListenerTask):
    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), envelope.message))

    def on_end_of_stream(self, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "ends"), "end"))


def test_a_task_hears_of_the_end_of_its_inputs():
    run = TestRunner.of(Passing).with_config(JOB).with_input("in", ["x"], partitions=2).run()
    assert run.outputs("ends").messages == ["end", "end"]


def test_a_job_file_runs_as_it_is_but_for_its_systems(tmp_path):
    file = tmp_path / "job.properties"
    keys = {
        **JOB,
        "job.name": "counting",
        "task.class": "tested_tasks:Counting",
        "systems.sys.samza.factory": "kafka",
        "systems.sys.consumer.bootstrap.servers": "nowhere:9092",
        "systems.sys.default.stream.samza.offset.default": "upcoming",
        "task.checkpoint.factory": "file",
        "task.checkpoint.path": str(tmp_path / "checkpoints"),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    run = TestRunner.of(file).with_config({"task.window.ms": "-1"}).with_input("sys.in", [("a", 1)]).run()
    assert run.store("counts") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["job.properties"]


def test_a_store_on_disk_is_read_from_its_files_and_one_in_memory_has_gone():
    keys = {key: value for key, value in JOB.items() if key != "stores.counts.changelog"}
    runner = TestRunner.of(Counting).with_input("in", [("a", 1), ("b", 1)], partitions=2)
    run = runner.with_config(keys | {"stores.counts.factory": "rocksdb"}).run()
    assert run.store("counts") == {"a": 1, "b": 1}
    assert run.changelog("counts") == []
    with pytest.raises(StoreError, match="nothing of it is left"):
        runner.with_config(keys).run().store("counts")


def test_a_key_in_several_partitions_is_not_one_entry():
    run = COUNTING.with_input("in", [Input(1, "a", 0), Input(1, "a", 1), Input(1, "a", 1)], partitions=2).run()
    assert [run.store("counts", number) for number in range(3)] == [{"a": 1}, {"a": 2}, {}]
    with pytest.raises(StoreError, match="has 'a' in several partitions"):
        run.store("counts")
    with pytest.raises(ConfigError, match="no such store; the job has: counts"):
        run.store("count")


def test_nothing_is_left_of_a_run():
    known = set(MemoryCluster._named)
    run = COUNTING.with_input("in", [("a", 1)]).run()
    assert set(MemoryCluster._named) == known
    assert run.outputs("out").messages == [1]
