"""DataFrames of stores on executors that are processes of their own, in folders of their own."""

from contextlib import closing
from pathlib import Path

import pytest
from spark_session import spark_session

from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.dataframe import read_store, write_store
from samzapy.system.clients import system_factory

pytestmark = [pytest.mark.slow, pytest.mark.spark]
JOB = """
job.name=views
job.default.system=local
systems.local.samza.factory=local
systems.local.path=${sensitive.log}
systems.local.default.stream.samza.key.serde=string
task.class=samzapy.examples.page_views:PageViewCountTask
task.inputs=local.views
page.views.output=local.views
stores.counts.factory=rocksdb
stores.counts.key.serde=string
stores.counts.msg.serde=long
stores.counts.changelog=local.counts-log
# A secret that is written here: the executors get it by a file.
sensitive.log=logs/local.db
"""


def test_a_dataframe_is_written_and_read_by_executors_that_have_other_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.properties").write_text(JOB)
    Path("logs").mkdir()
    settings = load_job("job.properties").systems["local"]
    with closing(system_factory(settings).admin(settings, "test")) as admin:
        admin.create(StreamSpec("views", 4))
    with spark_session("local-cluster[2,1,1024]") as spark:
        values = spark.sql("SELECT concat('/', id) AS key, id AS value FROM range(2000)")
        assert write_store(values, "job.properties", "counts").records == 2_000
        found = read_store(spark, "job.properties", "counts").orderBy("value").collect()
    assert [(row.key, row.value) for row in found] == [(f"/{number}", number) for number in range(2_000)]
