"""Fraud rules: what the task does with single payments, and what the job says about a day of them."""

import pytest
from jobs.gallery_job import CONFIGS, GalleryJob

from samzapy.examples.gallery.card_fraud import Alert, Confirmation, Payment

JOB = CONFIGS / "gallery" / "card-fraud.properties"
EVENTS, ALERTS = "card-events", "card-alerts"
MINUTE_MS = 60_000
T = 1_767_600_000_000


@pytest.fixture
def driver(task_driver):
    return task_driver(None, JOB)


def pay(driver, name, cents, minutes, card="ann"):
    driver.send(EVENTS, Payment(name, card, cents), card, timestamp=T + int(minutes * MINUTE_MS))


def confirm(driver, name, minutes, card="ann"):
    driver.send(EVENTS, Confirmation(name), card, timestamp=T + int(minutes * MINUTE_MS))


def sent(driver):
    return [(alert.rule, alert.payment) for alert in driver.outputs(ALERTS).messages]


def test_a_large_payment_soon_after_a_tiny_one_is_an_alert(driver):
    pay(driver, "try", 99, 0)
    pay(driver, "small", 2_000, 1)
    pay(driver, "other", 60_000, 2, card="bob")
    pay(driver, "theft", 60_000, 9.9)
    assert sent(driver) == [("tested", "theft"), ("unconfirmed", "other")]
    assert driver.outputs(ALERTS).pairs[0] == ("ann", Alert("tested", "theft", 60_000))


def test_ten_minutes_after_a_tiny_payment_it_is_forgotten(driver):
    pay(driver, "try", 99, 0)
    pay(driver, "large", 60_000, 10)
    assert sent(driver) == []
    assert list(driver.store("tiny").all()) == []


def test_a_payment_that_is_confirmed_in_time_is_no_alert_and_leaves_nothing_behind(driver):
    pay(driver, "large", 60_000, 0)
    confirm(driver, "large", 4.99)
    pay(driver, "later", 2_000, 30)
    assert sent(driver) == []
    assert list(driver.store("open").all()) == []


@pytest.mark.parametrize("late", [5, 7])
def test_a_confirmation_after_five_minutes_is_too_late(driver, late):
    pay(driver, "large", 60_000, 0)
    confirm(driver, "large", late)
    assert sent(driver) == [("unconfirmed", "large")]
    assert driver.outputs(ALERTS)[0].event_time == T + 5 * MINUTE_MS


@pytest.mark.parametrize("step", range(1, 8))
def test_a_crash_after_any_step_of_a_commit_repeats_no_alert_and_forgets_none(driver, step):
    pay(driver, "one", 60_000, 0)
    driver.commit()
    pay(driver, "two", 60_000, 6)
    driver.crash(at=f"commit.{step}")
    driver.restart()
    pay(driver, "three", 2_000, 12)
    driver.commit()
    alerts = driver.committed(ALERTS).messages
    assert alerts == [Alert("unconfirmed", "one", 60_000), Alert("unconfirmed", "two", 60_000)]


def alerts_of(messages):
    """The alerts of one partition, from its complete list."""
    newest = max((message.time_ms for message in messages), default=0)
    for place, (card, event, time_ms) in enumerate(messages):
        if event["type"] == "confirmation" or event["cents"] < 50_000:
            continue
        before = [each for each in messages[:place] if each.key == card and each.value["type"] == "payment"]
        if any(each.value["cents"] <= 100 and time_ms - each.time_ms < 10 * MINUTE_MS for each in before):
            yield card, {"rule": "tested", "payment": event["id"], "cents": event["cents"]}, time_ms
        deadline = time_ms + 5 * MINUTE_MS
        after = [each for each in messages[place:] if each.value.get("payment") == event["id"]]
        if deadline <= newest and not any(each.time_ms < deadline for each in after):
            yield card, {"rule": "unconfirmed", "payment": event["id"], "cents": event["cents"]}, deadline


def test_a_day_of_payments_gives_the_alerts_that_a_search_in_the_whole_list_finds(tmp_path):
    job = GalleryJob(tmp_path, "gallery/card-fraud", ALERTS)
    assert job.load() == job.run()
    expected = [alert for messages in job.partitions(EVENTS) for alert in alerts_of(messages)]
    found = [tuple(message) for message in job.read(ALERTS)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert {alert["rule"] for _, alert, _ in found} == {"tested", "unconfirmed"}
    assert job.run() == 0
    assert len(job.read(ALERTS)) == len(found)
