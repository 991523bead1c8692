"""Checkpoint records and the files they are kept in."""

import json
import os
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint import checkpoint_topic, codec, manager_for
from samzapy.checkpoint.managers import FileCheckpointManager
from samzapy.checkpoint.records import read_changelog_partitions, starting_offset, write_changelog_partitions
from samzapy.checkpoint.states import state_checkpoints
from samzapy.config.loader import load_job
from samzapy.config.streams import StreamConfig
from samzapy.errors import ConfigError, EnvironmentFailure, OffsetOutOfRange, PositionVoid, RestoreError, TaskMigrated
from samzapy.system.clients import job_clients
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("kafka", "orders.eu", 3)
CHECKPOINT = Checkpoint({SSP: 481}, {"counts": 92}, epoch=7, time_ms=1_700_000_000_000, clock=5)


def test_a_checkpoint_survives_its_record():
    assert codec.decode(codec.encode(CHECKPOINT), "here") == CHECKPOINT


@pytest.mark.parametrize("value", [b"", b"{}", b'{"format": 1}', b'{"format": 2}', b"[1]", b'{"format":1,"inputs":[]}'])
def test_a_damaged_checkpoint_names_its_place(value):
    with pytest.raises(RestoreError, match=r"^ckpt\[0\]@12: "):
        codec.decode(value, "ckpt[0]@12")


def test_a_complete_record_of_a_later_format_is_refused_by_its_format():
    records = [(codec.encode(CHECKPOINT), codec.decode), (codec.encode_record({"inputs": {}}), codec.decode_record)]
    for value, decode in records:
        decode(value, "here")
        for later in (2, 1.0, True):
            changed = json.dumps({**json.loads(value), "format": later}).encode()
            with pytest.raises(RestoreError, match=f"^here: .*format {later}, this version reads 1"):
                decode(changed, "here")


def test_the_serdes_of_stores_are_in_the_record_and_left_out_where_there_are_none():
    checkpoint = replace(CHECKPOINT, serdes={"counts": ("string", "json")})
    assert json.loads(codec.encode(checkpoint))["serdes"] == {"counts": ["string", "json"]}
    assert codec.decode(codec.encode(checkpoint), "here") == checkpoint
    assert b"serdes" not in codec.encode(CHECKPOINT)


def test_a_record_of_the_version_before_is_read():
    value = (
        b'{"format": 1, "epoch": 7, "time-ms": 1700000000000, "clock": 5, "inputs": {"kafka.orders.eu[3]": 481}, '
        b'"changelogs": {"counts": 92}}'
    )
    assert codec.decode(value, "here") == CHECKPOINT
    assert json.loads(codec.encode(CHECKPOINT)) == json.loads(value)


def test_the_topic_is_named_as_samza_names_it():
    assert checkpoint_topic("my_job", "a_1") == "__samza_checkpoint_ver_1_for_my-job_a-1"


def test_files_keep_the_newest_checkpoint_of_each_task(tmp_path):
    manager = FileCheckpointManager(tmp_path / "job-1")
    manager.start()
    assert manager.read(["Partition 0"])["Partition 0"] is None
    manager.write({"Partition 0": Checkpoint({SSP: 1}), "Partition 1": CHECKPOINT})
    manager.write({"Partition 0": CHECKPOINT})
    write_changelog_partitions(manager, {"Partition 0": 0, "Partition 1": 1})
    again = FileCheckpointManager(tmp_path / "job-1")
    assert again.read(["Partition 0"])["Partition 0"] == again.read(["Partition 1"])["Partition 1"] == CHECKPOINT
    assert read_changelog_partitions(again) == {"Partition 0": 0, "Partition 1": 1}


def test_a_superseded_process_that_goes_on_with_its_write_does_not_put_its_checkpoint_back(tmp_path, monkeypatch):
    committed, opened = replace(CHECKPOINT, epoch=8, input_offsets={SSP: 482}), Path.open
    first, successor = FileCheckpointManager(tmp_path), FileCheckpointManager(tmp_path)

    def written_after_a_pause(path, mode="r", **arguments):
        file = opened(path, mode, **arguments)
        if "r" not in mode:
            monkeypatch.undo()
            successor.write({"Partition 0": committed})
        return file

    monkeypatch.setattr(Path, "open", written_after_a_pause)
    with pytest.raises(TaskMigrated, match=r"^Partition 0: an attempt of epoch 8 has written its checkpoint, this one"):
        first.write({"Partition 0": CHECKPOINT})
    assert successor.read(["Partition 0"])["Partition 0"] == committed
    assert [path.name for path in tmp_path.iterdir()] == ["task-Partition%200.json"]


def test_what_killed_processes_have_left_is_removed_when_it_is_old(tmp_path):
    day_s = 86_400
    for name, age_s in [("10.tmp", 2 * day_s), (".0af3.tmp", 2 * day_s), (".0af4.tmp", day_s // 2)]:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (ManualClock().wall_ms() / 1000 - age_s,) * 2)
    FileCheckpointManager(tmp_path, ManualClock()).write({"a": CHECKPOINT})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".0af4.tmp", "task-a.json"]


def test_task_names_that_differ_only_in_odd_characters_have_files_of_their_own(tmp_path):
    manager = FileCheckpointManager(tmp_path)
    manager.start()
    manager.write({"a b": Checkpoint({SSP: 1}), "a_b": Checkpoint({SSP: 2})})
    assert [manager.read([name])[name].input_offsets[SSP] for name in ("a b", "a_b")] == [1, 2]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match=r"task\.checkpoint\.path: cannot make .*file/job"):
        FileCheckpointManager(tmp_path / "file" / "job").start()


LOG = OffsetRange(100, 200)


@pytest.mark.parametrize(("default", "expected"), [("oldest", 100), ("upcoming", 200), ("newest", 199)])
def test_without_a_checkpoint_a_partition_starts_at_its_default(default, expected):
    stream = StreamConfig(SSP.system_stream, offset_default=default)
    assert starting_offset(SSP, None, stream, LOG) == expected
    assert starting_offset(SSP, Checkpoint({}), stream, LOG) == expected


@pytest.mark.parametrize("default", ["oldest", "upcoming", "newest"])
def test_an_empty_log_starts_at_its_end(default):
    stream = StreamConfig(SSP.system_stream, offset_default=default)
    assert starting_offset(SSP, None, stream, OffsetRange(7, 7)) == 7


@pytest.mark.parametrize("committed", [100, 150, 200])
def test_a_committed_offset_in_the_log_is_the_start(committed):
    stream = StreamConfig(SSP.system_stream, offset_default="oldest")
    assert starting_offset(SSP, Checkpoint({SSP: committed}), stream, LOG) == committed


def test_reset_offset_ignores_the_checkpoint():
    stream = StreamConfig(SSP.system_stream, offset_default="oldest", reset_offset=True)
    assert starting_offset(SSP, Checkpoint({SSP: 150}), stream, LOG) == 100


def test_a_committed_offset_beyond_the_end_says_that_records_are_lost():
    stream = StreamConfig(SSP.system_stream, offset_default="oldest")
    with pytest.raises(PositionVoid) as caught:
        starting_offset(SSP, Checkpoint({SSP: 201}), stream, LOG)
    said = str(caught.value)
    assert f"{SSP}: the committed offset is 201, but the log ends at 200: it has lost records" in said
    assert f"samzapy startpoint set JOB.properties 200 --input '{SSP}'" in said
    assert starting_offset(SSP, Checkpoint({SSP: 201}), stream, LOG, goes_back=True) == 201


def test_a_committed_offset_before_the_log_names_both_numbers_and_the_repair():
    with pytest.raises(OffsetOutOfRange) as caught:
        starting_offset(SSP, Checkpoint({SSP: 99}), StreamConfig(SSP.system_stream), LOG)
    message = str(caught.value)
    assert message.startswith("kafka.orders.eu[3]@99: the log holds offsets 100 to 200 (exclusive)")
    assert "--config systems.kafka.streams.orders.eu.samza.reset.offset=true" in message
    assert caught.value.exit_code == 3


def test_the_options_of_the_repair_override_every_key_of_the_job_file():
    given = {
        "job.name": "views",
        "task.class": "a:B",
        "task.inputs": "orders,kafka.views",
        "systems.kafka.samza.factory": "kafka",
        "systems.kafka.default.stream.samza.offset.default": "upcoming",
        "systems.kafka.streams.views.samza.offset.default": "newest",
        "streams.orders.samza.system": "kafka",
        "streams.orders.samza.physical.name": "orders.eu",
        "streams.orders.samza.offset.default": "upcoming",
        "streams.orders.samza.reset.offset": "false",
    }
    for stream in (SSP.system_stream, SystemStream("kafka", "views")):
        ssp, config = SystemStreamPartition(*stream, 3), load_job(given)
        with pytest.raises(OffsetOutOfRange) as caught:
            starting_offset(ssp, Checkpoint({ssp: 99}), config.stream(stream), LOG)
        options = re.findall(r"--config (\S+)=(\S+)", str(caught.value))
        once = load_job(given, dict(options), strict=True).stream(stream)
        assert (once.reset_offset, once.offset_default) == (True, "oldest")


def test_a_job_takes_no_state_of_another_job_with_the_same_topic():
    def store(name, job_id):
        config = load_job(
            {
                "job.name": name,
                "job.id": job_id,
                "task.class": "a:B",
                "task.inputs": "memory.in",
                "systems.memory.samza.factory": "memory",
                "systems.memory.cluster": "shared-states",
            }
        )
        return state_checkpoints(config, "Partition 0", job_clients(config, "test"))

    store("fraud_eu", "1").persist(10_000, b"a")
    with pytest.raises(
        EnvironmentFailure, match=r"has states of job fraud_eu \(id 1\), .* job fraud \(id eu_1\); give"
    ):
        store("fraud", "eu_1").persist(10_000, b"b")
    assert store("fraud_eu", "1").recover(10_000) == b"a"


FILES = {
    "job.name": "views",
    "task.class": "a:B",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
    "task.checkpoint.factory": "file",
}


@pytest.mark.parametrize(
    ("given", "below"), [("~/kept", "home/kept"), ("kept", "work/kept"), ("./~/kept", "work/~/kept")]
)
def test_a_tilde_is_the_home_folder_for_the_checkpoints(tmp_path, monkeypatch, given, below):
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    config = load_job({**FILES, "task.checkpoint.path": given})
    with closing(job_clients(config, "test")) as clients:
        manager_for(config, clients).start()
    assert (tmp_path / below / config.job_name).is_dir()


@pytest.mark.parametrize("path", ["~no-such-user/kept", "kept\0"])
def test_a_path_that_no_folder_has_is_refused(path):
    with pytest.raises(ConfigError) as caught:
        load_job({**FILES, "task.checkpoint.path": path})
    said = "task.checkpoint.path: expected a path, or one below the home folder of a user of this machine, got "
    assert str(caught.value) == f"{said}{path!r}"


def test_the_leader_epochs_of_positions_are_in_the_record_and_left_out_where_they_are_unknown():
    checkpoint = replace(CHECKPOINT, leader_epochs=dict.fromkeys(CHECKPOINT.input_offsets, 3))
    assert json.loads(codec.encode(checkpoint))["leader-epochs"] == {"kafka.orders.eu[3]": 3}
    assert codec.decode(codec.encode(checkpoint), "here") == checkpoint
    assert b"leader-epochs" not in codec.encode(CHECKPOINT)


def test_a_record_that_gives_two_tasks_one_changelog_partition_is_refused():
    value = codec.encode_record({"partitions": {"Partition 0": 0, "Partition 1": 1, "Partition 2": 0}})
    with pytest.raises(RestoreError, match=r"^ckpt\[0\]@12: .*Partition 0 and Partition 2 have one partition, 0"):
        codec.decode_record(value, "ckpt[0]@12", JobRecord.PARTITIONS.value)
