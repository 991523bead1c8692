"""The metrics of a container as Prometheus reads them."""

import pytest
from prometheus_client import parser

from samzapy.metrics import Registry, UserMetrics
from samzapy.metrics.families import Kind, known_families, task_metric
from samzapy.metrics.registry import CONTENT_TYPE, as_text, container_series, is_at_container
from samzapy.metrics.reporters import without

EVERYTHING = without("")
TASKS = frozenset(f"Partition {n}" for n in range(3))


def with_values(groups):
    registry = Registry()
    for group, values in groups.items():
        for name, number in values.items():
            registry.gauge(group, name).set(number)
    return registry


def text_of(metrics, tasks=TASKS, is_shown=EVERYTHING):
    registry = metrics if isinstance(metrics, Registry) else with_values(metrics)
    return as_text(container_series("counts", "0", tasks, registry, is_shown)).decode()


def parsed(metrics, **more):
    families = parser.text_string_to_metric_families(text_of(metrics, **more))
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(found, name, **labels):
    return found[name, frozenset({"job": "counts", "container": "0", **labels}.items())]


def test_a_task_has_its_messages_by_input_stream():
    found = parsed({"Partition 1": {"processed": 7, "processed.kafka.in": 7, "sent": 3}})
    assert value(found, "samzapy_messages_processed_total", task="Partition 1", stream="kafka.in") == 7
    assert value(found, "samzapy_messages_sent_total", task="Partition 1") == 3
    assert task_metric("processed") is None, "the sum over the streams would count them twice"


def test_the_time_of_commits_is_a_histogram():
    registry = Registry()
    for took in (0.125, 0.25, 2.0):
        for name in ("commit", "step.changelog"):
            registry.timer("commit", name).update(took)
            registry.histogram("commit", name, (0.125, 1)).update(took)
    found = parsed(registry)
    for name, step in (("samzapy_commit_seconds", {}), ("samzapy_commit_step_seconds", {"step": "changelog"})):
        assert [value(found, f"{name}_bucket", le=le, **step) for le in ("0.125", "1.0", "+Inf")] == [1, 2, 3]
        assert value(found, f"{name}_sum", **step) == 2.375
        assert value(found, f"{name}_count", **step) == 3
    assert value(found, "samzapy_commit_max_seconds") == 2.0


def test_values_are_in_base_units_and_unknown_ones_in_no_line():
    found = parsed({"Partition 0": {"clock-ms": 1_500, "sent": float("nan")}, "container": {"threads": None}})
    assert found.keys() == {
        (
            "samzapy_task_clock_timestamp_seconds",
            frozenset({"job": "counts", "container": "0", "task": "Partition 0"}.items()),
        )
    }
    assert list(found.values()) == [1.5]


def test_errors_are_counted_by_stage_and_by_what_the_policy_did():
    found = parsed({"errors": {"process.dead-lettered": 2}})
    assert value(found, "samzapy_errors_total", stage="process", action="dead-lettered") == 2


def test_names_that_come_to_one_series_are_added_up():
    found = parsed({"shop": {"a b": 1, "a_b": 2}, "Partition 0": {"a b": 3, "a_b": 4}})
    assert value(found, "samzapy_user_shop_a_b") == 3
    assert value(found, "samzapy_user_task_a_b", task="Partition 0") == 7


def test_a_group_of_the_users_code_is_not_one_of_the_containers():
    registry = Registry()
    mine = UserMetrics(registry)
    registry.counter("errors", "process.skipped").inc(1)
    mine.counter("errors", "process.skipped").inc(2)
    mine.gauge("commit", "step.mine").set(3)
    mine.timer("clients", "call").update(4)
    mine.histogram("process", "seconds", (1, 2)).update(1.5)
    found = parsed(registry)
    assert value(found, "samzapy_errors_total", stage="process", action="skipped") == 1
    assert value(found, "samzapy_user_errors_process_skipped_total") == 2
    assert value(found, "samzapy_user_commit_step_mine") == 3
    assert value(found, "samzapy_user_clients_call_total_s") == 4
    assert value(found, "samzapy_user_process_seconds_bucket", le="2.0") == 1


def test_a_metric_of_the_users_code_keeps_its_kind():
    registry = Registry()
    mine = UserMetrics(registry)
    mine.counter("orders", "refused").inc(5)
    mine.counter("errors", "seen_total").inc(0.5)
    mine.gauge("orders", "open").set(3)
    mine.histogram("orders", "total", (10, 100)).update(50, times=3)
    lines = [line.removeprefix("# TYPE ") for line in text_of(registry).splitlines() if "# HELP" not in line]
    assert [line.replace('{container="0",job="counts"}', "") for line in lines if "bucket" not in line] == [
        *("samzapy_user_errors_seen_total counter", "samzapy_user_errors_seen_total 0.5"),
        *("samzapy_user_orders_open gauge", "samzapy_user_orders_open 3.0"),
        *("samzapy_user_orders_refused_total counter", "samzapy_user_orders_refused_total 5.0"),
        *("samzapy_user_orders_total histogram", "samzapy_user_orders_total_sum 150.0"),
        "samzapy_user_orders_total_count 3.0",
    ]


def test_a_timer_with_the_name_of_a_histogram_repeats_none_of_its_lines():
    registry = Registry()
    registry.timer("shop", "x").update(0.5)
    registry.histogram("shop", "x", (1, 2)).update(1.5, 3)
    lines = text_of(registry).splitlines()
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("samzapy_user_shop_x_count")] == ["3.0"]


def test_metrics_that_are_not_shown_are_left_out():
    metrics = {"errors": {"process.skipped": 1, "process.retried": 2}, "container": {"starts": 7}}
    found = parsed(metrics, is_shown=is_at_container)
    assert [dict(labels)["action"] for _, labels in found] == ["retried"]


@pytest.mark.parametrize("family", known_families(), ids=lambda family: family.name)
def test_every_family_has_a_help_text_and_a_name_by_the_conventions(family):
    assert family.help.endswith(".")
    assert family.name.replace("_", "").isalnum()
    assert family.name == family.name.lower()
    assert family.kind is Kind.UNTYPED or not family.name.endswith(("_total", "_count", "_sum"))


def test_no_two_families_have_a_sample_of_the_same_name():
    names = [name for family in known_families() for name in family.sample_names]
    assert len(names) == len(set(names))


def test_the_content_type_is_that_of_the_text_format():
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
