"""Each job of the gallery over its generated inputs, against plain Python over the complete lists."""

import re
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import samzapy
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.examples.flights.load import PARTITIONS, load
from samzapy.examples.gallery.load import inputs_of
from samzapy.testing import TestRunner
from samzapy.testing.runner import Input
from samzapy.verify.processes import until

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "how-to" / "gallery.md"
#: The jobs of the table at the page's top.
JOBS = sorted(re.findall(r"^\| \[.*\) \| `([\w-]+)` \|$", PAGE.read_text(), re.MULTILINE))
MINUTE_MS, DAY_MS, WEEK_MS = 60_000, 86_400_000, 7 * 86_400_000


def run(job):
    """The finished job of `configs/JOB.properties`, and its inputs."""
    inputs = dict(inputs_of(Path(job).name))
    runner = TestRunner.of(PROJECT / "configs" / f"{job}.properties")
    for stream, events in inputs.items():
        messages = [Input(event.value, event.key, None, event.time_ms) for event in events]
        runner = runner.with_input(stream, messages, PARTITIONS)
    return runner.run(), inputs


def test_every_view_is_in_a_visit_of_its_user_or_late():
    job, inputs = run("visits")
    views = Counter(event.key for event in inputs["views"])
    late = Counter(job.outputs("late-views").keys)
    in_visits, ends = Counter(), defaultdict(int)
    for visit in sorted(job.outputs("visits").messages, key=lambda visit: visit["start"]):
        user = visit["key"]
        in_visits[user] += visit["value"]["views"]
        assert visit["start"] >= ends[user]
        ends[user] = visit["end"]
    assert late
    assert in_visits + late == views


def test_alerts_are_the_large_payments_without_a_confirmation_in_time():
    job, inputs = run("gallery/card-fraud")
    events = inputs["card-events"]
    confirmed = {event.value["payment"]: event.time_ms for event in events if event.value["type"] == "confirmation"}
    expected = {
        event.value["id"]
        for event in events
        if event.value.get("cents", 0) >= 50_000
        and confirmed.get(event.value["id"], event.time_ms + 5 * MINUTE_MS) >= event.time_ms + 5 * MINUTE_MS
    }
    alerts = [alert.id for alert in job.outputs("card-alerts").messages]
    assert sorted(alerts) == sorted(expected)
    assert confirmed.keys() & expected, "some confirmations are late"
    assert job.store("open") == {}


def features_of(orders):
    """The row of every shopper."""
    by_shopper = defaultdict(list)
    for shopper, order, time_ms in orders:
        by_shopper[shopper].append((order, time_ms))
    return {
        shopper: {
            "orders": len(found),
            "cents": sum(order["cents"] for order, _ in found),
            "recent_cents": pytest.approx(
                sum(order["cents"] * 0.5 ** ((found[-1][1] - time_ms) / WEEK_MS) for order, time_ms in found)
            ),
            "last_order_ms": found[-1][1],
            "categories": Counter(order["category"] for order, _ in found),
        }
        for shopper, found in by_shopper.items()
    }


def test_features_are_sums_over_the_orders_of_a_shopper():
    job, inputs = run("gallery/shopper-features")
    assert msgspec.to_builtins(job.store("features")) == features_of(inputs["shop-orders"])


def test_a_model_looks_features_up_while_the_job_runs(tmp_path, monkeypatch):
    path = PROJECT / "configs" / "gallery" / "shopper-features.properties"
    monkeypatch.syspath_prepend(path.parent)
    look_up = import_module("look_up")
    keys = {
        "systems.events.path": str(tmp_path / "local.db"),
        "job.logged.store.base.dir": str(tmp_path / "state"),
        "job.log.dir": str(tmp_path / "logs"),
    }
    inputs = inputs_of("shopper-features")
    load(load_job(path, keys), inputs)
    with pytest.raises(EnvironmentFailure, match=r"topic 'shop-orders' on system 'events' holds [\d,]+ records"):
        load(load_job(path, keys), inputs)
    expected = features_of(inputs[0][1])
    with samzapy.submit(path, runner="local", **keys) as running:
        until(lambda: running.page, lambda: running.status)
        shopper = max(expected)
        until(lambda: look_up.features_of(shopper, running.page) == expected[shopper], lambda: running.status)
        assert look_up.features_of("unknown", running.page) is None


def test_each_order_has_the_last_row_of_its_customer():
    job, inputs = run("gallery/customer-orders")
    rows = {key: change and change["after"] for key, change, _ in inputs["customers"]}
    expected = [(key, {"order": order, "customer": rows.get(key)}) for key, order, _ in inputs["customers-orders"]]
    joined = [(key, msgspec.to_builtins(order)) for key, order in job.outputs("customer-orders").pairs]
    assert sorted(joined, key=str) == sorted(expected, key=str)
    assert any(order["customer"] is None for _, order in joined)


def test_repeated_orders_come_out_once():
    job, inputs = run("unique-orders")
    arrived = [(key, order["total"]) for key, order, _ in inputs["orders"]]
    passed = [(key, order.total) for key, order in job.outputs("unique-orders").pairs]
    assert sorted(passed) == sorted(set(arrived))
    assert len(passed) < len(arrived)


def test_flights_are_counted_by_airport_in_a_state_of_the_tasks_own():
    airports = ["EWR", "JFK", "EWR", "LGA", "EWR"]
    flights = [Input({"origin": name}, "", n % 2, n * DAY_MS) for n, name in enumerate(airports)]
    job = TestRunner.of(PROJECT / "configs" / "flight-counts.properties").with_input("flights", flights, 2).run()
    told = job.outputs("flight-counts").messages
    final = {message["task"]: message["counts"] for message in told if "until" not in message}
    assert final == {"Partition 0": {"EWR": 3}, "Partition 1": {"JFK": 1, "LGA": 1}}
    assert len(told) > len(final), "there are checkpoints, too"


@pytest.mark.parametrize("name", JOBS)
def test_the_inputs_of_a_job_of_the_page_are_the_same_each_time(name):
    (path,) = (PROJECT / "samzapy" / "examples").rglob(f"{name}.properties")
    job = load_job(path, strict=True)
    assert inputs_of(job.name) == inputs_of(job.name)
    assert {f"events.{stream}" for stream, _ in inputs_of(job.name)} == {str(stream) for stream in job.task.inputs}


def test_only_jobs_of_the_gallery_have_inputs():
    with pytest.raises(EnvironmentFailure, match="no inputs for job 'flights'; known: visits, card-fraud"):
        inputs_of("flights")


@pytest.mark.slow
def test_the_pictures_of_the_page_are_the_results_of_the_jobs(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="draws the pictures; the extra `dev` has it")
    monkeypatch.syspath_prepend(PROJECT / "configs" / "gallery")
    import_module("pictures").draw(tmp_path)
    pictures = {Path(path).name: PAGE.parent / path for path in re.findall(r"\]\((\S+\.svg)\)", PAGE.read_text())}
    assert {path.name for path in tmp_path.iterdir()} == pictures.keys()
    for name, path in pictures.items():
        # Another version draws other lines.
        if f"Matplotlib v{matplotlib.__version__}," in path.read_text():
            assert (tmp_path / name).read_text() == path.read_text()
