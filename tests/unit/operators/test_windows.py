"""Windows by example: what closes when, what is late, and what a restart finds."""

import pytest
from rigs.windows_rig import LATE, WindowsRig, opened_store, ssp

import samzapy
from samzapy import IncomingMessageEnvelope, SystemStream
from samzapy.errors import StoreError
from samzapy.operators.windows import (
    Collect,
    Count,
    Fold,
    Hopping,
    Sessions,
    Sliding,
    Sum,
    Tumbling,
    WindowedAggregation,
    aligned,
)


@pytest.fixture
def rig(tmp_path):
    """Opens windows on one store."""
    with opened_store(tmp_path) as opened:
        yield lambda windows, aggregation=None, partitions=1, streams=("in",), **more: WindowsRig(
            opened, WindowedAggregation(windows, aggregation or Count(), None, late=LATE, **more), partitions, streams
        )


def shown(results):
    return [(result.key, result.start, result.end, result.value) for result in results]


def entries(rig):
    with rig.opened.store.all() as found:
        return [key for key, _ in found]


def test_a_window_closes_when_event_time_has_come_to_its_end_and_the_grace(rig):
    windows = rig(Tumbling("1s", grace=500))
    windows.add("a", 100)
    windows.add("a", 999)
    windows.add("b", 1_000)
    windows.add("a", 1_499)
    assert windows.advance() == []
    assert windows.add("a", 700), "the grace is not over"
    windows.add("b", 1_500)
    (result,) = windows.advance()
    assert result == ("a", 0, 1_000, 3, "final", 999)
    assert result.message == {"key": "a", "start": 0, "end": 1_000, "value": 3, "kind": "final"}
    assert windows.advance() == []


def test_an_aggregation_of_pipelines_is_refused_with_the_import_that_fits():
    with pytest.raises(TypeError, match=r"expected one of samzapy\.operators\.windows, such as Count\(\), got Part\("):
        WindowedAggregation(Tumbling("1s"), samzapy.Count(), SystemStream("kafka", "out"))


def test_what_is_late_is_counted_and_sent_aside_as_it_came(rig):
    windows = rig(Tumbling("1s"))
    windows.add("a", 100)
    windows.add("a", 1_000)
    assert not windows.add("a", 999, value={"id": 3})
    (late,) = windows.sent.late
    assert (late.system_stream, late.key, late.message, late.timestamp) == (LATE, "a", {"id": 3}, 999)
    windows.advance()
    metrics = windows.metrics.snapshot()
    assert metrics["windows"] == {"windows.late": 1, "windows.ahead": 0, "windows.closed": 1}
    assert metrics["Partition 0"] == {"windows.event-time-ms": 1_000}
    assert shown(windows.sent.results + windows.finish()) == [("a", 0, 1_000, 1), ("a", 1_000, 2_000, 1)]


def test_windows_begin_at_their_offset(rig):
    windows = rig(Tumbling("1d", offset="23h"))
    windows.add("a", 22 * 3_600_000)
    windows.add("a", 23 * 3_600_000)
    assert [result[1:3] for result in windows.finish()] == [(-3_600_000, 82_800_000), (82_800_000, 169_200_000)]


@pytest.mark.parametrize("closed_between", [False, True], ids=["all open", "closed"])
def test_a_late_value_counts_in_later_sliding_windows_that_are_open(rig, closed_between):
    windows = rig(Sliding(10, grace=2), Collect())
    for time in (100, 104, 110):
        windows.add("a", time, value=time)
    results = windows.advance() if closed_between else []
    assert windows.add("a", 103, value=103), "(103, 104] are over, (109, 110] and later ones are not"
    assert not windows.add("a", 98, value=98), "each window that may have it is over"
    assert windows.add("b", 103, value=103), "a later one may have it"
    windows.commit()
    windows.crash()
    windows.add("a", 112, value=112)
    windows.add("b", 112, value=112)
    windows.add("c", 200)
    assert shown(results + windows.advance()) == [
        ("a", 91, 101, [100]),
        ("a", 95, 105, [100, 104]),
        ("a", 101, 111, [103, 104, 110]),
        ("a", 103, 113, [103, 104, 110, 112]),
        ("b", 103, 113, [103, 112]),
    ]
    assert {key for key in entries(windows) if key[0] in "kx"} == {"k|c", "x|00000000000201|c"}


@pytest.mark.parametrize("windows", [Tumbling(10), Hopping(20, 10), Sliding(10), Sessions(10)], ids=lambda w: w.name)
def test_nothing_is_left_of_keys_that_are_over(rig, windows):
    opened = rig(windows)
    for time in range(0, 500, 5):
        opened.add(f"key-{time}", time)
    opened.add("end", 1_000)
    opened.advance()
    left = {key for key in entries(opened) if key[1:2] == "|" and key[0] in "wkx"}
    assert {key.rpartition("|")[2] for key in left} == {"end"}
    opened.finish()
    assert [key for key in entries(opened) if key[0] in "wkx"] == []


def test_the_least_partition_holds_windows_open_and_does_not_make_others_late(rig):
    windows = rig(Tumbling(10), partitions=2)
    windows.add("a", 5, partition=0)
    windows.add("a", 500, partition=0)
    assert windows.advance() == [], "nothing has come of partition 1"
    assert windows.add("b", 3, partition=1)
    assert not windows.add("a", 5, partition=0), "late for its own partition"
    windows.add("b", 10, partition=1)
    assert shown(windows.advance()) == [("a", 0, 10, 1), ("b", 0, 10, 1)]


def test_an_idle_partition_does_not_hold_the_others_and_its_old_messages_are_late(rig):
    windows = rig(Tumbling(10), partitions=2, idle="30s")
    windows.add("b", 3, partition=1)
    windows.add("a", 25, partition=0)
    assert windows.advance(10) == []
    windows.add("a", 26, partition=0)
    assert shown(windows.advance(29)) == []
    windows.add("a", 27, partition=0)
    assert shown(windows.advance(2)) == [("b", 0, 10, 1)]
    assert not windows.add("b", 4, partition=1)
    assert windows.add("b", 25, partition=1)
    assert windows.advance(1) == []


def test_partitions_that_come_back_together_are_as_far_as_the_one_that_is_furthest_behind(rig):
    windows = rig(Tumbling(10), partitions=3, idle="30s")
    for partition in range(3):
        windows.add("a", 5, partition=partition)
    windows.advance()
    assert shown(windows.advance(30)) == [("a", 0, 10, 3)]
    for partition, time in enumerate((30_095, 30_045, 30_067)):
        windows.add("b", time, partition=partition)
    assert windows.advance(1) == []
    for partition in range(3):
        windows.add("c", 30_099, partition=partition)
    assert shown(windows.advance(1)) == [("b", 30_040, 30_050, 1), ("b", 30_060, 30_070, 1)]


def test_when_everything_is_idle_event_time_goes_on_with_the_clock(rig):
    windows = rig(Tumbling("1m"), idle="30s")
    windows.add("a", 59_000)
    windows.add("a", 61_000)
    assert shown(windows.advance()) == [("a", 0, 60_000, 1)]
    assert windows.advance(30) == []
    assert windows.advance(28.9) == [], "58.9 s after the last message"
    assert shown(windows.advance(0.1)) == [("a", 60_000, 120_000, 1)]
    assert not windows.add("a", 119_000)


def test_what_was_over_stays_over_after_a_restart(rig):
    windows = rig(Tumbling("1m"), idle="30s")
    windows.add("a", 10_000)
    windows.advance()
    assert len(windows.advance(60)) == 1
    windows.commit()
    windows.crash()
    assert not windows.add("a", 30_000)
    assert windows.add("a", 75_000)


def test_windows_of_an_ended_stream_are_over_in_the_next_run(rig):
    windows = rig(Sliding(10, grace=3))
    windows.add("a", 50)
    windows.add("b", 58)
    assert len(windows.finish()) == 2
    windows.commit()
    windows.crash()
    assert not windows.add("a", 49), "each window that may have it was over"
    assert windows.add("a", 59)
    windows.add("a", 80)
    assert shown(windows.advance()) == [("a", 50, 60, 1)]
    assert windows.finish() != windows.finish() == []


def test_windows_that_are_over_close_again_after_an_undo_and_a_start(rig):
    windows = rig(Tumbling(10))
    windows.add("a", 5)
    windows.add("b", 20)
    store = windows.opened.store
    before = {key: store.get(key) for key in entries(windows)}
    closed = windows.advance()
    store.delete_all(set(entries(windows)) - before.keys())
    store.put_all(before)
    assert windows.advance() == closed
    store.put_all(before | {"clock": 20})  # as half a commit leaves it
    windows.start()
    assert windows.advance() == closed


def test_one_advance_closes_any_number_of_windows(rig):
    windows = rig(Tumbling(10))
    for number in range(10_001):
        windows.add(str(number), 5)
    windows.add("a", 20)
    assert len(windows.advance()) == 10_001


def test_closing_reads_the_store_once_and_after_that_goes_by_memory(rig):
    windows = rig(Tumbling(10))
    before = windows.opened.stores.metrics()["windows.scans"]
    for start in (0, 10_000, 20_000):
        for time in range(start, start + 10_000, 10):
            windows.add("a", time)
        assert len(windows.advance()) == 999 + (start > 0)
        assert windows.opened.stores.metrics()["windows.scans"] == before + 1


def test_only_messages_of_the_named_inputs_count_for_event_time(rig):
    windows = rig(Tumbling(10), streams=("in", "planes"), inputs=[SystemStream("mem", "in")])
    windows.add("a", 5)
    windows.add("a", 10)
    assert len(windows.advance()) == 1
    with pytest.raises(ValueError, match=r"mem\.planes\[0\]@7: the windows take messages of mem\.in$"):
        windows.add("a", 20, stream="planes")


def test_a_message_that_is_in_no_window_moves_event_time(rig):
    windows = rig(Tumbling(10))
    windows.add("a", 5)
    windows.windows.observe(IncomingMessageEnvelope(ssp(0), 8, None, None, event_time=10))
    assert shown(windows.advance()) == [("a", 0, 10, 1)]


def test_a_task_that_wants_other_windows_than_the_store_holds_is_refused(rig):
    rig(Tumbling("1h", grace="5m"))
    rig(Tumbling("1h", grace="10m"))
    message = (
        r"Partition 0: store 'windows' holds 'windows of 3600000 ms every 3600000 ms from 0 ms, Count', "
        r"the task wants 'windows of 60000 ms every 60000 ms from 0 ms, Count': give it a new store"
    )
    with pytest.raises(StoreError, match=message):
        rig(Tumbling("1m"))
    with pytest.raises(StoreError, match=r"the task wants .*, Sum'"):
        rig(Tumbling("1h"), Sum())


KINDS = {
    "tumbling": lambda grace: Tumbling(10, grace=grace),
    "panes": lambda grace: Hopping(40, 10, grace=grace),
    "sliding": lambda grace: Sliding(10, grace=grace),
    "sessions": lambda grace: Sessions(10, grace=grace),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_longer_grace_opens_no_window_that_was_over(rig, make):
    before = rig(make(0))
    for time in (1, 2, 70):
        before.add("a", time)
    final = {result[:3] for result in before.advance()}
    assert final
    before.commit()
    windows = rig(make(200))
    assert not windows.add("a", 5)
    assert [envelope.timestamp for envelope in windows.sent.late] == [5]
    assert windows.add("a", 70), "its windows were not over"
    windows.add("a", 500)
    windows.advance()
    assert not final & {result[:3] for result in windows.sent.results}


def test_a_grace_that_was_longer_for_a_while_closes_nothing_early(rig):
    before = rig(Tumbling(10))
    before.add("a", 15)
    before.advance()
    for grace in (200, 0, 200):
        rig(Tumbling(10, grace=grace))
    windows = rig(Tumbling(10))
    assert not windows.add("a", 9)
    assert windows.add("a", 16)
    assert windows.advance() == []
    windows.add("a", 20)
    assert shown(windows.advance()) == [("a", 10, 20, 2)]


def test_a_store_without_its_grace_gets_the_present_one(rig):
    before = rig(Tumbling(10))
    before.add("a", 15)
    before.advance()
    before.opened.store.delete("grace")
    windows = rig(Tumbling(10, grace=5))
    assert windows.opened.store.get("grace") == 5
    assert (windows.add("a", 9), windows.opened.store.get("clock")) == (False, 15)


@pytest.mark.parametrize("key", [None, 5, b"a"])
def test_a_key_that_is_no_string_is_refused_with_the_messages_position(rig, key):
    with pytest.raises(TypeError, match=r"^mem\.in\[0\]@7: keys of windows are strings, got "):
        rig(Tumbling(10)).add(key, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tumbling(0), "size of Tumbling: milliseconds from 1 to 3155760000000, or a number with .*, got 0"),
        (lambda: Tumbling("1 week"), "size of Tumbling: .*got '1 week'"),
        (lambda: Tumbling("1h", grace=-1), "grace of Tumbling: milliseconds from 0 .*got -1"),
        (lambda: Hopping("1m", "2m"), "advance of Hopping: at most its size, got '2m' and a size of '1m'"),
        (lambda: Hopping("1d", 1), "advance of Hopping: at least 8640 ms for a size of '1d', .* in 86400000 windows"),
        (lambda: Sliding(1.5), "size of Sliding: .*got 1.5"),
        (lambda: Sessions(True), "gap of Sessions: .*got True"),
    ],
)  # fmt: skip
def test_lengths_that_are_none_are_refused(make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


def test_what_does_not_fit_the_task_is_refused(rig):
    with pytest.raises(ValueError, match="Fold: sessions grow together and need a fold with a merge"):
        rig(Sessions(10), Fold(int, max))
    with pytest.raises(ValueError, match=r"Partition 0: windows of mem\.other: the task reads mem\.in"):
        rig(Tumbling(10), Fold(int, max), inputs=[SystemStream("mem", "other")])


def test_a_store_from_before_windows_had_panes_goes_on_as_it_is(rig):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligned, "LEAST_PANES", 1_000)
        old = rig(Hopping(40, 10))
        old.add("a", 5)
    windows = rig(Hopping(40, 10))
    windows.add("a", 12)
    windows.add("b", 25)
    assert shown(windows.advance()) == [("a", -30, 10, 1), ("a", -20, 20, 2)]
    assert [entry for entry in entries(windows) if entry[0] in "wk"] == [
        "w|00000000000030|a", "w|00000000000030|b", "w|00000000000040|a", "w|00000000000040|b",
        "w|00000000000050|a", "w|00000000000050|b", "w|00000000000060|b",
    ]  # fmt: skip


def test_a_value_far_ahead_of_the_others_costs_no_window_in_between(rig):
    windows = rig(Hopping("1h", "1s"))
    windows.add("a", 5)
    windows.add("a", 10**13)
    assert len(windows.finish()) == 7_200


def test_durations_are_milliseconds_or_text():
    sizes = [Tumbling(text).size_ms for text in (250, "250ms", "10s", "5m", "1 h", " 2d ")]
    assert sizes == [250, 250, 10_000, 300_000, 3_600_000, 172_800_000]
