"""A store filled from a DataFrame on a real broker, and the exactly-once job that goes on from it."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from jobs.page_view_job import page_view_job_on_kafka
from spark_session import spark_session

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.dataframe import read_store, write_store
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.spark]
#: More than ten, so that the changelog's partitions are in another order than the input's.
PARTITIONS = 12
PAGES = [f"/{number % 2_000}" for number in range(6_000)]


@pytest.fixture(scope="module")
def spark(kafka):
    os.environ["TEST_BROKER"] = kafka
    with spark_session("local[2,3]") as session:
        yield session
    del os.environ["TEST_BROKER"]


def test_a_job_on_kafka_goes_on_from_a_dataframe_and_reads_what_it_says(
    spark, tmp_path, kafka_settings, kafka_admin, unique_topic
):
    names = {what: unique_topic(what) for what in ("views", "out", "log")}
    for what in ("views", "out"):
        kafka_admin.create(StreamSpec(names[what], PARTITIONS))
    job = tmp_path / "job.properties"
    broker = "${env:TEST_BROKER}"
    job.write_text(page_view_job_on_kafka(names["views"], tmp_path, broker, **names, task__commit__ms="500"))

    def view(pages):
        producer = KafkaSystemFactory().producer(kafka_settings, "test")
        producer.send([OutgoingRecord(names["views"], page.encode(), b"{}") for page in pages])
        producer.flush()
        producer.close()

    def found():
        frame = read_store(spark, job, "counts", columns=("key", "value", "partition", "task"))
        rows = frame.collect()
        assert len({row.key for row in rows}) == len(rows), "a key is with one task only"
        return {row.key: row.value for row in rows}

    view(PAGES)
    history = spark.createDataFrame(list(Counter(PAGES).items()), "key string, value bigint")
    written = write_store(history, job, "counts", positions={f"kafka.{names['views']}": "upcoming"})
    assert written.records == 2_000
    assert found() == Counter(PAGES)
    late = ["/0", "/1", "/0", "/late"]
    view(late)
    command = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "run", str(job)]
    subprocess.run([*command, "--runner", "local", "--until-end"], check=True)
    assert found() == Counter(PAGES + late)
    outputs = [SystemStreamPartition("kafka", names["out"], number) for number in range(PARTITIONS)]
    logs = kafka_admin.offsets(outputs)
    consumer = KafkaSystemFactory().consumer(kafka_settings, "test")
    consumer.start({ssp: log.oldest for ssp, log in logs.items()})
    sent = 0
    while any(consumer.position(ssp) < log.upcoming for ssp, log in logs.items()):
        sent += sum(len(batch.offsets) for batch in consumer.poll(0.1, 1_000))
    consumer.close()
    assert sent == len(late), "what the frame has counted is not counted again"
    smaller = history.where("key = '/0'")
    assert write_store(smaller, job, "counts", overwrite=True).tombstones == 2_000
    assert found() == {"/0": 3}
