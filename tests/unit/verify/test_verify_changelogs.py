"""Which task a record of a changelog belongs to, with more partitions than one digit can number."""

from rigs.store_rig import SMALLEST

from samzapy.config.loader import load_job
from samzapy.job.planner import plan
from samzapy.verify.evidence import Record, by_task


def test_a_changelog_record_has_the_input_partition_of_its_task():
    config = load_job(SMALLEST, environ={})
    model = plan(config, dict.fromkeys(config.task.inputs, 12))
    written = [Record(task.changelog_partition, 0, b"", task.name.encode()) for task in model.tasks]
    assert {(f"Partition {record.partition}", record.value) for record in by_task(written, 12)} == {
        (task.name, task.name.encode()) for task in model.tasks
    }
    assert model.tasks[2].name == "Partition 10"
