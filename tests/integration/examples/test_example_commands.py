"""Every example by the commands of its job file and of the docs, on the embedded system and on Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_commands import commands_of_file, commands_of_pages, job_names, run_commands

from samzapy.devkafka import DevBroker

pytestmark = [pytest.mark.slow, pytest.mark.kafka]

ON_KAFKA = {"systems.events.samza.factory": "kafka"}


@pytest.fixture(params=["local", "kafka"])
def overrides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What is given to each command; a broker of the test's own, since the examples share their inputs' names."""
    if request.param == "local":
        yield {}
        return
    broker = DevBroker(tmp_path / "kafka", tied=True)
    try:
        yield {**ON_KAFKA, "systems.events.consumer.bootstrap.servers": broker.start()}
    finally:
        broker.stop()


@pytest.mark.parametrize("name", job_names())
def test_the_commands_of_an_example_do_what_they_say(name: str, overrides: dict[str, str], tmp_path: Path) -> None:
    lines = commands_of_file(name)
    assert any(line.startswith(f"samzapy run configs/{name}.properties --until-end") for line in lines)
    printed = run_commands(lines, tmp_path, overrides)
    processed = [int(count.replace(",", "")) for count in re.findall(r"^([\d,]+) messages in ", printed, re.MULTILINE)]
    assert processed
    assert all(processed)
    assert not printed.rstrip().splitlines()[-1].startswith(f"{processed[-1]:,} messages"), "no result was shown"
    run_commands(commands_of_pages(name), tmp_path, overrides)


def test_a_store_filled_by_batch_saves_reading_its_stream(overrides: dict[str, str], tmp_path: Path) -> None:
    first, *rest = commands_of_file("flights")
    by_batch = "python configs/planes_by_batch.py configs/flights.properties"
    printed = run_commands([first, by_batch, *rest], tmp_path, overrides)
    assert "3,322 planes" in printed
    assert "336,776 messages in" in printed
    assert "336,776 flights, 8,255 cancelled, mean delay 12.6 min; model known for 279,971 of 328,521" in printed


@pytest.mark.parametrize("name", ["page-views", "customer-orders", "flights"])
def test_the_commands_that_a_copy_prints_do_what_they_say(name: str, tmp_path: Path) -> None:
    printed = run_commands([f"samzapy examples copy {name}"], tmp_path, {})
    lines = [line.removeprefix("  ") for line in printed.splitlines()[1:]]
    assert re.search(r"^[\d,]+ messages in ", run_commands(lines, tmp_path, {}), re.MULTILINE)
