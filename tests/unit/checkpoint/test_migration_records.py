"""The record of the stores that are being rewritten."""

from contextlib import closing

import pytest

from samzapy.api.checkpoint import JobRecord
from samzapy.checkpoint.files import FileCheckpointManager
from samzapy.checkpoint.records import Migration, Migrations, refuse_unfinished
from samzapy.errors import EnvironmentFailure, RestoreError

BEGUN = Migration(
    "k.log",
    "id",
    1_700_000_000_000,
    {"key.serde": "string", "msg.serde": "long"},
    {"key.serde": "string", "msg.serde": "json", "msg.type": "a:B"},
    "",
    {0: 8, 1: 9, 2: 0},
    {},
)


@pytest.fixture
def checkpoints(tmp_path):
    with closing(FileCheckpointManager(tmp_path / "job-1")) as manager:
        manager.start()
        yield manager


def test_what_is_written_comes_back(checkpoints):
    assert Migrations.read(checkpoints) == Migrations()
    migrations = Migrations().having("s", BEGUN.with_done(2, -1).with_done(0, 12)).having("t", BEGUN)
    checkpoints.write_record(JobRecord.MIGRATION, migrations.to_json())
    assert Migrations.read(checkpoints) == migrations
    assert Migrations.read(checkpoints).without("s").stores == {"t": BEGUN}


def test_only_a_store_that_is_being_rewritten_is_refused_with_the_command_that_goes_on(checkpoints):
    checkpoints.write_record(JobRecord.MIGRATION, Migrations().having("s", BEGUN.with_done(1, 20)).to_json())
    refuse_unfinished(checkpoints, ["t", "u"])
    with pytest.raises(EnvironmentFailure) as caught:
        refuse_unfinished(checkpoints, ["t", "s"])
    assert str(caught.value) == (
        "store 's': its migration to msg.serde json, msg.type a:B began at 2023-11-14T22:13:20+00:00 and is not complete "
        "(1 of 3 partitions), so it cannot be read; complete it: samzapy store migrate JOB.properties s"
    )


def test_a_record_that_cannot_be_read_is_an_error(checkpoints):
    checkpoints.write_record(JobRecord.MIGRATION, {"stores": {"s": {"changelog": 7}}})
    with pytest.raises(RestoreError, match="the job's record of its migrations cannot be read"):
        Migrations.read(checkpoints)
