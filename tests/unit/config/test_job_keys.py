"""`job.*` and the job as a whole."""

from pathlib import Path

import pytest

from samzapy.api.stream import SystemStream
from samzapy.config.supervision import ReporterConfig


def test_all_problems_come_together(problems):
    found = problems({"job.name": None, "task.class": None, "task.inputs": None, "task.window.ms": "soon"})
    assert found == [
        "job.name: required, e.g. page-views",
        "task.inputs: required, e.g. kafka.page-views",
        "task.class: required, e.g. my.module:MyTask",
        "task.window.ms: expected an integer, got 'soon'",
    ]


@pytest.mark.parametrize("name", ["../x", "a b", "x" * 200, ".", "..", "a/b", "grün", "a\0b"])
def test_a_name_that_cannot_be_part_of_a_path_is_refused(problems, name):
    for key in ("job.name", "job.id"):
        (found,) = problems({key: name})
        assert found == (
            f"{key}: expected a name of up to 100 of the characters A-Za-z0-9._-, other than '.' and '..', got {name!r}"
        )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("org.apache.samza.container.grouper.stream.GroupByPartitionFactory", "partition"),
        ("org.apache.samza.container.grouper.stream.GroupBySystemStreamPartitionFactory", "ssp"),
        ("org.apache.samza.container.grouper.stream.AllSspToSingleTaskGrouperFactory", "single"),
        ("ssp", "ssp"),
    ],
)
def test_groupers_have_short_and_java_names(load, given, meant):
    assert load({"job.systemstreampartition.grouper.factory": given}).grouper == meant


def test_the_variable_for_logged_stores_wins(load):
    config = load(
        {"job.logged.store.base.dir": "/a", "job.non-logged.store.base.dir": "/b"}, {"LOGGED_STORE_BASE_DIR": "/c"}
    )
    assert (config.logged_store_base_dir, config.non_logged_store_base_dir) == (Path("/c"), Path("/b"))


def test_a_tilde_is_the_home_folder_for_stores_and_logs(load, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    keys = {"job.logged.store.base.dir": "~/a", "job.non-logged.store.base.dir": "~", "job.log.dir": "~/logs"}
    config = load(keys)
    assert (config.logged_store_base_dir, config.non_logged_store_base_dir) == (Path("/home/me/a"), Path("/home/me"))
    assert config.supervision.log.folder == Path("/home/me/logs")
    assert load(keys, {"LOGGED_STORE_BASE_DIR": "~/c"}).logged_store_base_dir == Path("/home/me/c")


def test_settings_of_spark_that_a_job_cannot_run_with_are_refused(problems):
    given = {"spark.python.use.daemon": "No", "spark.master": "yarn", "executor": "x"}
    assert problems({f"job.spark.conf.{name}": value for name, value in given.items()}) == [
        "job.spark.conf.spark.python.use.daemon: must be true: a worker has to end with its executor, got 'No'",
        "job.spark.conf.spark.master: must be left out: job.spark.master names the master, got 'yarn'",
        "job.spark.conf.executor: expected a key of Spark, which starts with spark.",
    ]


def test_links_of_the_page_are_addresses(load, problems):
    board = {"job.page.links.Grafana": "https://grafana/d/1"}
    assert load(board).page_links == {"Grafana": "https://grafana/d/1"}
    assert problems({"job.page.links.Grafana": "grafana/d/1"}) == [
        "job.page.links.Grafana: expected an address that starts with http:// or https://, got 'grafana/d/1'"
    ]


def test_reporters_are_read_with_samzas_class_names(load):
    reporters = load(
        {
            "metrics.reporters": "snap,log",
            "metrics.reporter.snap.class": "org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory",
            "metrics.reporter.snap.stream": "kafka.metrics",
            "metrics.reporter.snap.interval": "5",
            "metrics.reporter.snap.blacklist": r"store\..*",
        }
    ).metrics_reporters
    assert reporters == (
        ReporterConfig("snap", "snapshot", SystemStream("kafka", "metrics"), 5, r"store\..*"),
        ReporterConfig("log", "log"),
    )
