"""A job's snapshot as Prometheus text, read back by the library's own parser."""

from math import nan

import pytest

from samzapy.coordinator.changes import Changes, Reported
from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.coordinator.wire import pack, unpack
from samzapy.job.lease import ContainerReport
from samzapy.metrics import Registry, UserMetrics
from samzapy.metrics.bounded import USER_FAMILIES, Bounds
from samzapy.metrics.columns import MetricColumns
from samzapy.metrics.families import Kind, known_families, task_metric
from samzapy.metrics.prometheus import CONTENT_TYPE, render
from samzapy.metrics.series import (
    ContainerSnapshot,
    JobSnapshot,
    PartitionSnapshot,
    job_series,
    sample_names,
)
from samzapy.runner.serving import job_snapshot

TASKS = frozenset(f"Partition {n}" for n in range(3))


@pytest.fixture
def parsed():
    parser = pytest.importorskip("prometheus_client.parser")

    def read(job, limit=500, most=100_000):
        text = render(job, Bounds(limit, most)).decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        }

    return read


def job(*containers, **facts):
    return JobSnapshot("counts", containers, **facts)


def container(metrics, container_id="0", **facts):
    return ContainerSnapshot(container_id, TASKS, metrics, **facts)


def value(found, name, **labels):
    return found[name, frozenset({"job": "counts", **labels}.items())]


def test_a_task_has_its_messages_by_input_stream(parsed):
    found = parsed(job(container({"Partition 1": {"processed": 7, "processed.kafka.in": 7, "sent": 3}})))
    place = {"container": "0", "task": "Partition 1"}
    assert value(found, "samzapy_messages_processed_total", **place, stream="kafka.in") == 7
    assert value(found, "samzapy_messages_sent_total", **place) == 3


def test_a_store_with_dots_in_its_name_keeps_them_in_its_label(parsed):
    found = parsed(job(container({"Partition 0": {"store.by.user.gets": 5, "store.by.user.hits": 4}})))
    place = {"container": "0", "task": "Partition 0", "store": "by.user"}
    assert value(found, "samzapy_store_gets_total", **place) == 5
    assert value(found, "samzapy_store_cache_hits_total", **place) == 4


def test_times_are_in_seconds(parsed):
    found = parsed(job(container({"Partition 0": {"clock-ms": 1_500}}), clock_ms=1_500))
    assert value(found, "samzapy_task_clock_timestamp_seconds", container="0", task="Partition 0") == 1.5
    assert value(found, "samzapy_job_clock_timestamp_seconds") == 1.5


def commits(*seconds):
    """What a container's registry says of commits that took so long."""
    registry = Registry()
    for took in seconds:
        for name in ("commit", "step.changelog"):
            registry.timer("commit", name).update(took)
            registry.histogram("commit", name, (0.125, 1)).update(took)
    return registry.snapshot()


def test_the_time_of_commits_is_a_histogram(parsed):
    found = parsed(job(container(commits(0.125, 0.25, 2.0))))
    for step in ({}, {"step": "changelog"}):
        name = "samzapy_commit_step_seconds" if step else "samzapy_commit_seconds"
        below = [value(found, f"{name}_bucket", container="0", le=le, **step) for le in ("0.125", "1.0", "+Inf")]
        assert below == [1, 2, 3]
        assert value(found, f"{name}_sum", container="0", **step) == 2.375
        assert value(found, f"{name}_count", container="0", **step) == 3
    assert value(found, "samzapy_commit_max_seconds", container="0") == 2.0


def test_a_job_with_many_containers_has_sums_and_counts_and_no_buckets(parsed):
    containers = [container(commits(0.25), str(number)) for number in range(4)]
    text = render(job(*containers), Bounds(buckets=12)).decode()
    assert text.count("samzapy_commit_seconds_bucket") == 12
    text = render(job(*containers), Bounds(buckets=11)).decode()
    assert "_bucket" not in text
    assert text.count("samzapy_commit_seconds_count") == 4


def test_a_histogram_of_the_jobs_own_code_keeps_its_kind(parsed):
    registry = Registry()
    registry.histogram("orders", "total", (10, 100)).update(50, times=3)
    text = render(job(container(registry.snapshot()))).decode()
    assert "# TYPE samzapy_user_orders_total histogram" in text
    found = parsed(job(container(registry.snapshot())))
    assert value(found, "samzapy_user_orders_total_bucket", container="0", le="100.0") == 3
    assert value(found, "samzapy_user_orders_total_sum", container="0") == 150


def test_errors_are_counted_by_stage_and_by_what_the_policy_did(parsed):
    found = parsed(job(container({"errors": {"process.dead-lettered": 2}})))
    assert value(found, "samzapy_errors_total", container="0", stage="process", action="dead-lettered") == 2


def test_lag_is_known_by_partition_and_for_the_furthest_of_a_container(parsed):
    partitions = {
        "kafka.in[0]": PartitionSnapshot(5, 7, 2, 1.5),
        "kafka.in[1]": PartitionSnapshot(5, 5, 0),
        "k.x[0]": PartitionSnapshot(1),
    }
    found = parsed(job(container({}, partitions=partitions)))
    assert value(found, "samzapy_partition_lag_messages", container="0", stream="kafka.in", partition="0") == 2
    assert (
        value(found, "samzapy_partition_oldest_unread_seconds", container="0", stream="kafka.in", partition="0") == 1.5
    )
    assert value(found, "samzapy_container_lag_max_messages", container="0") == 2
    assert not [
        labels for name, labels in found if name == "samzapy_partition_lag_messages" and ("stream", "k.x") in labels
    ]


def test_a_stale_number_is_in_no_line(parsed):
    columns = MetricColumns.of({"Partition 0": {"sent": 1, "clock-ms": nan}, "container": {"resident-bytes": nan}})
    found = parsed(job(container(columns)))
    assert value(found, "samzapy_messages_sent_total", container="0", task="Partition 0") == 1
    assert not [name for name, _ in found if name.startswith(("samzapy_task_clock", "samzapy_container_resident"))]


def test_a_container_that_lost_its_lease_is_down_and_its_restarts_are_counted(parsed):
    found = parsed(job(container({}, state="lost", attempts=3)))
    assert value(found, "samzapy_container_up", container="0") == 0
    assert value(found, "samzapy_container_restarts_total", container="0") == 2


def test_numbers_of_the_jobs_own_code_have_a_limited_number_of_names(parsed):
    mine = {f"seen {n}": n for n in range(USER_FAMILIES + 5)}
    found = parsed(job(container({"shop": mine})))
    assert value(found, "samzapy_user_shop_seen_7", container="0") == 7
    assert len([name for name, _ in found if name.startswith("samzapy_user_")]) == USER_FAMILIES
    assert value(found, "samzapy_metrics_left_out") == 5


def test_a_label_may_hold_any_text(parsed):
    metrics = {'Partition "0"\n\\': {"sent": 1}}
    odd = ContainerSnapshot("0", frozenset(metrics), metrics)
    found = parsed(job(odd))
    assert value(found, "samzapy_messages_sent_total", container="0", task='Partition "0"\n\\') == 1


def test_a_family_with_too_many_series_loses_its_tasks_and_adds_them_up(parsed):
    metrics = {task: {"sent": 2, "clock-ms": 1000 * n} for n, task in enumerate(sorted(TASKS), 1)}
    found = parsed(job(container(metrics), container(metrics, "1")), limit=5)
    assert value(found, "samzapy_messages_sent_total", container="1") == 6
    assert value(found, "samzapy_task_clock_timestamp_seconds", container="0") == 1, "clocks merge to the least"


def test_a_family_keeps_the_labels_that_it_has_room_for():
    metrics = {task: {f"store.{s}.gets": 1 for s in ("a", "b")} for task in TASKS}
    (gets,) = [s for s in job_series(job(container(metrics)), Bounds(2)) if s.family.name == "store_gets"]
    assert [(dict(sample.labels)["store"], sample.value) for sample in gets.samples] == [("a", 3), ("b", 3)]


def test_tasks_with_other_names_and_stores_are_added_up_together(parsed):
    names = {"Partition 0": {"sent": 2, "store.a.gets": 1}, "Partition 1": {"sent": 3}, "Partition 2": {}}
    found = parsed(job(container(names), container(names, "1")), limit=3)
    assert value(found, "samzapy_messages_sent_total", container="0") == 5
    assert value(found, "samzapy_store_gets_total", container="1", task="Partition 0", store="a") == 1


def test_names_that_come_to_one_series_are_added_up(parsed):
    found = parsed(job(container({"shop": {"a b": 1, "a_b": 2}, "Partition 0": {"a b": 3, "a_b": 4}})))
    assert value(found, "samzapy_user_shop_a_b", container="0") == 3
    assert value(found, "samzapy_user_task_a_b", container="0", task="Partition 0") == 7


def test_names_in_other_scripts_are_series_of_their_own(parsed):
    names = {"заказы": {"число": 5}, "поток": {"длина": 7}, "größe": {"mean": 1}}
    found = parsed(job(container(names)))
    assert sorted(number for (name, _), number in found.items() if name.startswith("samzapy_user_")) == [1, 5, 7]
    assert value(found, "samzapy_user_gr_u00f6_u00dfe_mean", container="0") == 1


def test_a_group_of_the_jobs_own_code_is_not_one_of_ours(parsed):
    registry = Registry()
    mine = UserMetrics(registry)
    registry.counter("errors", "process.skipped").inc(1)
    mine.counter("errors", "process.skipped").inc(2)
    mine.gauge("commit", "step.mine").set(3)
    mine.timer("clients", "call").update(4)
    mine.histogram("process", "seconds", (1, 2)).update(1.5)
    mine.counter("orders", "refused").inc(5)
    found = parsed(job(container(registry.snapshot())))
    assert value(found, "samzapy_errors_total", container="0", stage="process", action="skipped") == 1
    assert value(found, "samzapy_user_errors_process_skipped_total", container="0") == 2
    assert value(found, "samzapy_user_commit_step_mine", container="0") == 3
    assert value(found, "samzapy_user_clients_call_total_s", container="0") == 4
    assert value(found, "samzapy_user_process_seconds_bucket", container="0", le="2.0") == 1
    assert value(found, "samzapy_user_orders_refused_total", container="0") == 5


def of_the_jobs_own_code(metrics):
    """The types and samples of the metrics of the job's own code."""
    lines = render(job(container(metrics))).decode().splitlines()
    found = [line.removeprefix("# TYPE ") for line in lines if "samzapy_user_" in line and "# HELP" not in line]
    return sorted(line.replace('{job="counts",container="0"}', "") for line in found)


def test_counters_and_gauges_of_the_jobs_own_code_keep_their_kind_on_the_way_to_the_driver():
    registry = Registry()
    mine = UserMetrics(registry)
    mine.counter("orders", "refused").inc(5)
    mine.counter("errors", "seen_total").inc(0.5)
    mine.gauge("orders", "open").set(3)
    registry.counter("errors", "process.skipped").inc()
    own = [
        "samzapy_user_errors_seen_total 0.5",
        "samzapy_user_errors_seen_total counter",
        "samzapy_user_orders_open 3.0",
        "samzapy_user_orders_open gauge",
        "samzapy_user_orders_refused_total 5.0",
        "samzapy_user_orders_refused_total counter",
    ]
    assert of_the_jobs_own_code(registry.snapshot()) == own
    changes, reported = Changes(), Reported(7)
    report = ContainerReport("0", 7, "running", metrics=registry.snapshot())
    for metrics in (False, True):
        for piece in changes.pieces(report, 0.0, metrics=metrics):
            reported = reported.changed(unpack(pack(piece)))
            changes.acknowledge()
    assert of_the_jobs_own_code(reported.metrics) == own
    assert reported.metrics.groups() == registry.snapshot()
    assert reported.metrics["orders"] == {"refused": 5.0, "open": 3.0}


def test_a_timer_with_the_name_of_a_histogram_repeats_none_of_its_lines():
    registry = Registry()
    registry.timer("shop", "x").update(0.5)
    registry.histogram("shop", "x", (1, 2)).update(1.5, 3)
    lines = render(job(container(registry.snapshot()))).decode().splitlines()
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("samzapy_user_shop_x_count")] == ["3.0"]


def test_the_partitions_of_a_large_job_are_added_up_by_stream(parsed):
    partitions = {f"kafka.in[{n}]": PartitionSnapshot(5, 7, 2, float(n)) for n in range(4)}
    found = parsed(job(container({}, partitions=partitions)), limit=3)
    assert value(found, "samzapy_partition_lag_messages", container="0", stream="kafka.in") == 8
    assert value(found, "samzapy_partition_oldest_unread_seconds", container="0", stream="kafka.in") == 3
    found = parsed(job(container({}, partitions=partitions)), limit=0)
    assert value(found, "samzapy_partition_lag_messages", container="0") == 8


def test_a_job_with_too_many_series_leaves_out_whole_families_of_its_clients_first(parsed):
    metrics = {
        "commit": {"commits": 1},
        "clients": {"k/c/requests": 1},
        **{task: {"sent": 1, "store.a.gets": 1} for task in TASKS},
    }
    everything = parsed(job(container(metrics), container(metrics, "1")))
    assert value(everything, "samzapy_metrics_series_left_out") == 0
    room = len(everything) - 1
    fewer = parsed(job(container(metrics), container(metrics, "1")), most=room - 1)
    assert {name for name, _ in everything.keys() - fewer.keys()} == {"samzapy_kafka_client_requests_total"}
    assert value(fewer, "samzapy_metrics_series_left_out") == 2
    fewer = parsed(job(container(metrics), container(metrics, "1")), most=room - 3)
    assert value(fewer, "samzapy_metrics_series_left_out") == 6
    assert "samzapy_store_gets_total" not in {name for name, _ in fewer}
    assert value(fewer, "samzapy_commits_total", container="1") == 1


def test_the_text_is_made_in_pieces_so_that_other_threads_can_run():
    pauses = []
    render(job(*(container({"Partition 0": {"sent": 1}}, str(n)) for n in range(50))), pause=lambda: pauses.append(1))
    assert len(pauses) > 100


def test_every_family_has_a_help_text_and_a_name_by_the_conventions():
    for family in known_families():
        assert family.help.endswith("."), family
        assert family.name.replace("_", "").isalnum(), family
        assert family.name == family.name.lower(), family
        assert family.kind is Kind.UNTYPED or not family.name.endswith(("_total", "_count", "_sum")), family


def test_no_two_families_have_a_sample_of_the_same_name():
    names = [name for family in known_families() for name in sample_names(family)]
    assert len(names) == len(set(names))


def test_the_sum_over_the_streams_is_not_exported_beside_them():
    assert task_metric("processed") is None


def test_a_status_without_reports_renders(parsed):
    status = JobStatus("counts", False, 0.0, (ContainerStatus("0", "waiting", "", 0, None, 0, 0, None, None),), (), ())
    found = parsed(job_snapshot(status, TASKS))
    assert value(found, "samzapy_container_up", container="0") == 0
    assert value(found, "samzapy_containers", role="active", state="waiting", phase="") == 1


def test_the_content_type_is_that_of_the_text_format():
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
