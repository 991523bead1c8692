"""A task may have no partition of an input that goes through a stream of the job."""

from samzapy.pipeline import Pipeline, Tumbling
from samzapy.testing.pipeline import PipelineDriver

START = 1_700_000_040_000


def test_windows_do_not_wait_for_tasks_without_a_partition():
    pipeline = Pipeline("uneven")
    counts = pipeline.stream("shop.narrow").key_by(lambda view: view["page"]).window(Tumbling("1m")).count()
    counts.to("shop.counts")
    pipeline.stream("shop.wide").to("shop.copy")
    with PipelineDriver(pipeline, partitions={"narrow": 1, "wide": 3}) as driver:
        for minute in (0, 5):
            driver.send("narrow", {"page": "a"}, timestamp=START + minute * 60_000)
        for _ in range(4):
            driver.advance(1)
        assert [row["count"] for row in driver.outputs("counts").messages] == [1]
