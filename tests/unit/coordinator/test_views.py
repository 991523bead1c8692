"""What readers get: the page, the status with what the page adds, events, records, and the views of the runner."""

import base64
import hashlib
import json
import re

import pytest
import urllib3
from jobs.job_models import job_model
from jobs.job_status import failed_job
from jobs.served_page import Shown, served_page

from samzapy.coordinator import views as views_module
from samzapy.coordinator.wire import JobSpec


@pytest.fixture(scope="module")
def url():
    with served_page(Shown(failed_job(), JobSpec(job_model(), {}))) as address:
        yield address


def got(url, path=""):
    return urllib3.request("GET", url + path, retries=False, timeout=60)


def test_the_page_loads_nothing_and_allows_only_its_own_script_and_style(url):
    answer = got(url)
    page, policy = answer.data.decode(), answer.headers["content-security-policy"]
    assert re.findall(r"(?:src|href)=\"([^#d][^\"]*)", page) == []
    assert "//" not in re.sub(r"http(:|%3A)//www\.w3\.org|// ", "", page)
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "innerHTML" not in page


def test_a_status_has_what_the_page_adds(url):
    status = json.loads(got(url, "status").data)
    assert status["containers"][0]["stalled"]["reason"] == "broker unreachable"
    extras = status["page"]
    assert (extras["stores"], extras["streams"]) == (["counts"], ["kafka.in"])
    assert extras["tasks"] == {"m.in[0]": "Partition 0"}
    assert extras["counts"]["errors.process.skipped"] == "inputs skipped (process)"


def test_events_are_the_status_again_and_again(url, monkeypatch):
    monkeypatch.setattr(views_module, "PACE_S", 0.01)
    events = urllib3.request("GET", f"{url}events", preload_content=False, timeout=60)
    read = iter(events)
    lines = [line for line in (next(read) for _ in range(4)) if line.strip()]
    assert len(lines) >= 2
    assert all(json.loads(line.removeprefix(b"data: "))["job"] == "page-views" for line in lines)
    events.close()


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ("store=counts&key=ann", ["store counts, partition 0"]),
        ("store=counts&key=%00%ff", []),
        ("", []),
        ("stream=kafka.in&partition=3&from=2026-11-28T03:00&key=ann", ["kafka.in[3]@2026-11-28T03:00"]),
        ("store=counts&key=a&how=prefix", ["store counts, prefix"] * 3),
        ("store=counts&key=a&how=history", ["store counts, history"] * 3),
    ],
)
def test_records_are_looked_up_as_they_are_asked_for(url, asked, places):
    assert [each["place"] for each in got(url, f"records?{asked}").json()["records"]] == places


def test_the_log_of_a_container_is_text(url):
    answer = got(url, "log?container=1")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.data == b"12:00:01 WARNING [container 1]: a <line>"


def test_a_status_says_why_the_job_is_stuck_and_has_figures_over_time(url):
    status = json.loads(got(url, "status").data)
    assert status["diagnosis"]["text"] == "Container 0 is stuck: broker unreachable for 45 s"
    assert status["diagnosis"]["command"] == "samzapy check JOB.properties"
    assert status["page"]["history"]["columns"][:3] == ["time_ms", "rate", "lag"]
    assert status["page"]["links"] == {"Spark": "http://127.0.0.1:4040"}


def test_a_question_that_cannot_be_answered_says_why(url):
    answer = got(url, "records?store=counts&key=wrong")
    assert (answer.status, answer.json()) == (400, {"error": "key: expected <right>, got 'wrong'"})
