from __future__ import annotations

from benchmarks.latency.percentiles import percentiles
from benchmarks.latency.reader import Received
from benchmarks.latency.report import markdown, plot
from benchmarks.latency.running import Latency
from benchmarks.reporting.page import latency_table

MS = 1_000_000


def latency(name, rate, p50_ms):
    return Latency(
        name=name,
        guarantee="exactly-once",
        commit_ms=100,
        rate=rate,
        p50_ms=p50_ms,
        p99_ms=2 * p50_ms,
        p999_ms=3 * p50_ms,
        max_ms=4 * p50_ms,
        late_p99_ms=0.1,
        cores=0.5,
    )


def test_percentiles_are_in_milliseconds():
    assert percentiles([MS * each for each in range(1, 1001)]) == {
        "p50_ms": 501,
        "p99_ms": 990,
        "p99.9_ms": 999,
        "max_ms": 1000,
    }
    assert percentiles([]) == {}


def test_latency_begins_when_an_event_was_due_and_warm_up_does_not_count():
    received = Received()
    for value, now in (
        (b'{"id":0,"at":0,"seen":true}', 900 * MS),
        (b'{"id":1,"at":1000000000,"seen":true}', 1_500 * MS),
        (b'{"id": 2, "at": 3000000000, "seen": true}', 3_007 * MS),
        (b'{"id":3,"at":4000000000}', 4_009 * MS),
    ):
        received.add(value, now)
    found = received.report(warm_up_s=2)
    assert (found["received"], found["start"], found["end"]) == (3, 3.0, 4.0)
    assert (found["p50_ms"], found["max_ms"]) == (7, 9), "neither the probe nor the event of the warm-up"


def test_a_row_has_the_medians_of_its_repeats_and_a_gap_where_there_is_none(tmp_path):
    found = [latency("samzapy", 1_000, p50_ms) for p50_ms in (1, 9, 2)] + [latency("other", 10_000, 5)]
    text = markdown(found, {"third": "no Java"})
    assert "### exactly-once, commits every 100 ms" in text
    assert "| samzapy | 2.0 / 4.0 / 6.0 | 0.50 | - | - |" in text
    assert "| other | - | - | 5.0 / 10.0 / 15.0 | 0.50 |" in text
    assert "- third: not measured: no Java" in text
    plot(found, tmp_path / "latency.svg")
    assert (tmp_path / "latency.svg").read_text().startswith("<?xml")


def test_the_table_of_the_page_has_the_medians_of_its_cases():
    found = [latency("samzapy", rate, p50_ms) for rate, p50_ms in ((1_000, 1), (10_000, 4), (10_000, 6))]
    assert list(latency_table(found))[-1] == "| samzapy | | | | 5.0/10 |"
