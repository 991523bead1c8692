"""Temperatures by ten minutes, with late readings aside."""

from collections import defaultdict

import pytest
from jobs.gallery_job import CONFIGS, GalleryJob

from samzapy.examples.gallery.room_climate import Reading

JOB = CONFIGS / "gallery" / "room-climate.properties"
MINUTE_MS = 60_000
T = 1_767_600_000_000


@pytest.fixture
def driver(task_driver):
    return task_driver(None, JOB)


def report(driver, *readings):
    """(room, minute, celsius) of each, in one batch."""
    rooms, minutes, celsius = zip(*readings, strict=True)
    times = [T + minute * MINUTE_MS for minute in minutes]
    driver.send_batch("room-readings", rooms, list(map(Reading, celsius)), timestamps=times)


def test_ten_minutes_are_summed_up_five_minutes_after_their_end(driver):
    report(driver, ("hall", 0, 20.0), ("hall", 9, 21.0), ("hall", 10, 30.0), ("hall", 14, 30.0))
    driver.window()
    assert driver.outputs("room-climate") == []
    report(driver, ("hall", 15, 30.0))
    driver.window()
    (result,) = driver.outputs("room-climate").messages
    assert (result["start"], result["end"]) == (T, T + 10 * MINUTE_MS)
    assert result["value"] == {"readings": 2, "mean": 20.5, "low": 20.0, "high": 21.0}


def test_a_late_reading_changes_no_result_and_goes_aside_as_it_came(driver):
    report(driver, ("hall", 1, 20.0), ("attic", 15, 20.0), ("hall", 2, 99.0), ("hall", 14, 20.0))
    driver.window()
    assert [result["value"]["high"] for result in driver.outputs("room-climate").messages] == [20.0]
    (late,) = driver.outputs("late-readings")
    assert (late.key, late.message, late.event_time) == ("hall", Reading(99.0), T + 2 * MINUTE_MS)


@pytest.mark.parametrize("step", range(1, 8))
def test_a_crash_after_any_step_of_a_commit_sums_up_each_reading_once(driver, step):
    report(driver, ("hall", 0, 20.0))
    driver.commit()
    report(driver, ("hall", 1, 21.0), ("hall", 15, 30.0), ("hall", 3, 99.0))
    driver.crash(at=f"commit.{step}")
    driver.restart()
    driver.window()
    driver.commit()
    (result,) = driver.committed("room-climate").messages
    assert (result["value"]["readings"], result["value"]["mean"]) == (2, 20.5)
    assert driver.committed("late-readings").messages == [Reading(99.0)]


def windows_and_late(partitions):
    """The temperatures of each room and ten minutes, and the late readings, from the complete lists."""
    taken, late = defaultdict(list), []
    for messages in partitions:
        newest = 0
        for message in messages:
            newest = max(newest, message.time_ms)
            start = message.time_ms // (10 * MINUTE_MS) * 10 * MINUTE_MS
            if start + 15 * MINUTE_MS > newest:
                taken[message.key, start].append(message.value["celsius"])
            else:
                late.append(message)
    return taken, late


def test_a_day_of_readings_is_summed_up_as_lists_say(tmp_path):
    job = GalleryJob(tmp_path, "gallery/room-climate", "room-climate", "late-readings")
    assert job.load() == job.run()
    taken, late = windows_and_late(job.partitions("room-readings"))
    results = {(result.key, result.value["start"]): result.value for result in job.read("room-climate")}
    assert len(job.read("room-climate")) == len(results)
    assert {window: result["value"] for window, result in results.items()} == {
        window: {
            "readings": len(found),
            "mean": pytest.approx(sum(found) / len(found), abs=0.001),
            "low": min(found),
            "high": max(found),
        }
        for window, found in taken.items()
    }
    assert sorted(job.read("late-readings"), key=str) == sorted(late, key=str)
    assert late
    assert {result["kind"] for result in results.values()} == {"final"}
