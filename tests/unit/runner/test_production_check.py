"""`samzapy check --production`: what makes each line red, or not known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from docs.generator.markdown import anchors
from samzapy import Pipeline, StreamTask, SystemStream, Tumbling, Within
from samzapy.admin.user_code import checked_code
from samzapy.api.system import StreamDescription
from samzapy.config.loader import load_job
from samzapy.job.planner import plan
from samzapy.metrics.dashboard import rules
from samzapy.operators.joins import TimeRules
from samzapy.operators.windows import Count, WindowedAggregation, WindowedTask
from samzapy.runner.production import CHECKS, PAGE, Surroundings, checklist
from samzapy.runner.spark.master import checked_master

JOB = {
    "job.name": "views",
    "job.default.system": "kafka",
    "job.logged.store.base.dir": "/var/lib/samzapy",
    "job.page.port": "8080",
    "views.output": "kafka.out",
    "task.class": f"{__name__}:Views",
    "task.inputs": "kafka.in",
    "task.window.ms": "1000",
    "systems.kafka.samza.factory": "kafka",
    "systems.kafka.consumer.bootstrap.servers": "localhost:1",
    "systems.kafka.default.stream.samza.key.serde": "string",
    "systems.kafka.default.stream.samza.msg.serde": "json",
    "stores.windows.factory": "rocksdb",
    "stores.windows.key.serde": "string",
    "stores.windows.msg.serde": "json",
    "stores.windows.changelog": "kafka.log",
}
CHECKPOINTS = "__samza_checkpoint_ver_1_for_views_1"
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
FINE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
KEPT, COMPACT = {"cleanup.policy": "delete", "retention.ms": f"{7 * DAY_MS}"}, {"cleanup.policy": "compact"}
#: The settings of each topic.
TOPICS = {"in": KEPT, "out": KEPT, "log": COMPACT, CHECKPOINTS: COMPACT, "__transaction_state": COMPACT}
ALL = ("READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS")


class Views(WindowedTask):
    def aggregation(self, context):
        grace = context.job.config.get("views.grace", "1h")
        return WindowedAggregation(Tumbling("1h", grace=grace), Count(), output=SystemStream("kafka", "out"))

    def process(self, envelope, collector, coordinator):
        pass


class Joining(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass


pipeline = Pipeline("views")
_views, _clicks = pipeline.stream("kafka.in"), pipeline.stream("kafka.clicks")
_views.join(_clicks, within=Within("1m", "1m"), rules=TimeRules(lateness="2d")).to("kafka.out")


def surroundings(
    keys=None, *, topics=None, rights: tuple[str, ...] | None = ALL, rules_text=None, refused="", missing=()
):
    """A job whose lines are all ok, but for the given keys, and settings and copies by topic."""
    config = load_job({key: value for key, value in {**JOB, **(keys or {})}.items() if value})
    described = {}
    for name, settings in TOPICS.items():
        given = {"copies": 3, **FINE, **settings, **(topics or {}).get(name, {})}
        copies, hidden = given.pop("copies"), given.pop("hidden", "")
        described[SystemStream("kafka", name)] = StreamDescription(
            name, 2, name, {} if hidden else given, copies, hidden, rights
        )
    for name in missing:
        del described[SystemStream("kafka", name)]
    code = checked_code(config)
    model = refused or plan(config, dict.fromkeys(config.task.inputs, 2), {})
    master = checked_master(config, config.container_count, 0, endless=False)
    return Surroundings(config, code, master, model, rules_text, described)


def lines(seen, accepted=()):
    """The state and the reason of each line, by its check; of several lines, all."""
    found = {}
    for check, state, reason, _ in checklist(seen, accepted):
        found.setdefault(check, []).append((state, reason))
    return found


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    monkeypatch.setenv("SAMZAPY_TOKEN", "x" * 32)


def test_a_job_that_lacks_nothing_has_one_line_that_is_not_known():
    found = lines(surroundings(rules_text=rules()))
    assert {check: state for check, ((state, _),) in found.items()} == {
        **dict.fromkeys(CHECKS, "ok"),
        "supervisor": "not known",
    }


@pytest.mark.parametrize(
    ("changes", "check", "state", "reason"),
    [
        ({"refused": "topic 'x' does not exist"}, "start", "red", "refused: topic 'x' does not exist"),
        ({"missing": ["out"]}, "start", "red", "kafka.out: the output does not exist"),
        (
            {"topics": {"in": {"copies": 1}, "log": {"copies": 1}}},
            "replication",
            "red",
            "kafka.in, kafka.log: replication factor 1",
        ),
        ({"missing": ["log"]}, "replication", "not known", "kafka.log: check again after the first start"),
        ({"topics": {"log": {"min.insync.replicas": "1"}}}, "min-insync", "red", "kafka.log: min.insync.replicas=1"),
        ({"topics": {"in": {"min.insync.replicas": "3"}}}, "min-insync", "red", "3 of 3: writes stop without one"),
        ({"topics": {"out": {"hidden": "needs an ACL"}}}, "min-insync", "not known", "kafka.out: hidden: needs an ACL"),
        (
            {"topics": {"in": {"unclean.leader.election.enable": "true"}}},
            "unclean-election",
            "red",
            "kafka.in: unclean.leader.election.enable=true",
        ),
        ({"topics": {"log": KEPT}}, "compaction", "red", "changelog log must be compact"),
        ({"topics": {CHECKPOINTS: KEPT}}, "compaction", "red", "expected compact: positions or rows would be lost"),
        ({"keys": {"streams.in.samza.bootstrap": "true"}}, "compaction", "red", "kafka.in: cleanup.policy=delete"),
        ({"topics": {"in": {"retention.ms": f"{HOUR_MS}"}}}, "retention", "red", "may be 3600000 ms late"),
        ({"keys": {"views.grace": "8d"}}, "retention", "red", "kafka.out: retention.ms=604800000: a result has the"),
        ({"keys": {"task.class": f"{__name__}:Joining"}}, "retention", "not known", "by the joins of Joining"),
        ({"rights": ("READ", "DESCRIBE")}, "rights", "red", "kafka.out: the user lacks WRITE"),
        ({"rights": ALL[:-3]}, "rights", "not known", "transactional ids and groups that begin with views-1-"),
        ({"rights": None}, "rights", "not known", "no system tells what the user may do"),
        ({"keys": {"container.cache.max.bytes": f"{2**50}"}}, "memory", "red", "this machine has"),
        (
            {"keys": {"job.spark.master": "yarn", "job.spark.conf.spark.executor.memory": "4g"}},
            "memory",
            "red",
            "spark.executor.memoryOverhead is 409 MiB",
        ),
        ({"keys": {"job.spark.master": "spark://host:7077"}}, "memory", "not known", "the memory of the hosts"),
        ({"keys": {"job.spark.master": "spark://host:7077"}}, "spark-recovery", "not known", "spark.deploy.recovery"),
        ({}, "alert-rules", "not known", "name their file with --rules"),
        ({"rules_text": "groups: []"}, "alert-rules", "red", "and"),
        ({"keys": {"job.logged.store.base.dir": "state"}}, "state-folder", "red", "state is relative"),
        ({"keys": {"job.logged.store.base.dir": "/tmp/state"}}, "state-folder", "red", "is for temporary files"),
        ({"keys": {"job.logged.store.base.dir": "/proc/state"}}, "state-folder", "ok", ""),
        ({"keys": {"job.spark.master": "yarn"}}, "state-folder", "not known", "/var/lib/samzapy is on the hosts"),
        (
            {"keys": {"job.spark.master": "yarn", "job.spark.coordinator.tls.enabled": "false"}},
            "page",
            "red",
            "cross the network in the clear",
        ),
        ({"keys": {"task.commit.ms": "-1"}}, "guarantee", "red", "at-least-once is weaker by task.commit.ms"),
    ],
)
def test_what_is_lacking_is_named(changes, check, state, reason):
    found = lines(surroundings(**changes))[check]
    assert [each for each in found if each[0] == state and reason in each[1]], found


def test_a_memory_file_system_is_no_disk(monkeypatch):
    mount = type("Mount", (), {"mountpoint": "/var/lib/samzapy", "fstype": "tmpfs"})
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: [mount])
    assert lines(surroundings())["state-folder"] == [("red", "/var/lib/samzapy is on no disk of this machine (tmpfs)")]


def test_executors_whose_overhead_has_room_are_ok():
    keys = {"job.spark.master": "yarn", "job.spark.conf.spark.executor.memoryOverhead": "2g"}
    assert lines(surroundings(keys))["memory"] == [("ok", "the containers fit")]


def test_without_a_token_in_the_environment_the_page_is_not_known(monkeypatch):
    monkeypatch.delitem(os.environ, "SAMZAPY_TOKEN")
    ((state, reason),) = lines(surroundings())["page"]
    assert (state, "SAMZAPY_TOKEN is not set here" in reason) == ("not known", True)


def test_the_lateness_of_a_pipelines_join_counts_against_retention():
    keys = {"app.class": f"{__name__}:pipeline", "task.class": None, "task.inputs": None}
    seen = surroundings(keys, topics={"in": {"retention.ms": f"{DAY_MS}"}})
    assert seen.late_ms == 2 * DAY_MS
    assert ("red", "kafka.in: retention.ms=86400000") in [
        (state, reason[:31]) for state, reason in lines(seen)["retention"]
    ]


def test_what_is_accepted_is_not_red():
    seen = surroundings(topics={"in": {"copies": 1}})
    assert lines(seen, ["replication"])["replication"] == [("accepted", "kafka.in: replication factor 1, expected 3")]


def test_each_check_has_a_section_on_its_page():
    sections = anchors((Path(__file__).parents[3] / PAGE).read_text(encoding="utf-8"))
    assert sections >= CHECKS.keys()
