"""What comes of a message behind a repartition, when the task dies after it was sent and before the commit."""

import pytest

from samzapy.pipeline import Pipeline
from samzapy.testing.pipeline import PipelineDriver

ONE_BY_ONE = {"task.guarantee": "effectively-once", "task.batch.max.messages": "1"}


@pytest.mark.parametrize(
    "keys", [ONE_BY_ONE, {"task.guarantee": "exactly-once"}], ids=lambda keys: keys["task.guarantee"]
)
def test_a_repartitioned_message_counts_once_after_a_crash(keys):
    pipeline = Pipeline("counts")
    pipeline.stream("kafka.in").key_by(lambda item: item["k"]).count()
    with PipelineDriver(pipeline, keys, partitions=2) as driver:
        driver.send("in", {"k": "a"}, key="x")
        driver.send("in", {"k": "a"}, key="y")
        driver.crash(at="commit.3")
        driver.restart()
        for _ in range(3):
            driver.commit()
            driver.advance(1)
        assert [driver.store("by-k-count", number).get("a") for number in (0, 1)].count(2) == 1
