"""The checkers are checked: eight bugs are put into the evidence of a real run, and the right check must see each one.

`checkers.ALLOWED` says where a bug is none, because the guarantee does not promise its absence.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from finished_run import EVENTS, half_and_whole

from samzapy.config.task import Guarantee
from samzapy.verify.checkers import judge
from samzapy.verify.evidence import Evidence, LocalStore, Record
from samzapy.verify.workload import STORES, Chain, Event

ALO, AMO, EFO, EO = (
    Guarantee.AT_LEAST_ONCE,
    Guarantee.AT_MOST_ONCE,
    Guarantee.EFFECTIVELY_ONCE,
    Guarantee.EXACTLY_ONCE,
)


@pytest.fixture(scope="module", params=list(Guarantee), ids=lambda guarantee: guarantee.value)
def run(request, tmp_path_factory):
    half, whole = half_and_whole(request.param, tmp_path_factory.mktemp("run"))
    return request.param, half, whole


def outputs(evidence: Evidence, records: list[Record]) -> Evidence:
    """Other outputs, which every reader has always seen like this."""
    return replace(evidence, outputs=records, watched=records)


def drop(half: Evidence, whole: Evidence) -> Evidence:
    kept = list(whole.outputs)
    del kept[len(kept) // 2]
    return outputs(whole, kept)


def duplicate(half: Evidence, whole: Evidence) -> Evidence:
    again = whole.outputs[len(whole.outputs) // 2]
    return outputs(whole, [*whole.outputs, again._replace(offset=again.offset + EVENTS)])


def reorder(half: Evidence, whole: Evidence) -> Evidence:
    records = list(whole.outputs)
    seen: dict[bytes, int] = {}
    for there, record in enumerate(records):
        if record.key in seen:
            break
        seen[record.key] = there
    here = seen[record.key]
    records[here], records[there] = (
        record._replace(offset=records[here].offset),
        records[here]._replace(offset=record.offset),
    )
    return outputs(whole, records)


def cross_keys(half: Evidence, whole: Evidence) -> Evidence:
    """Two outputs carry each other's values."""
    records = list(whole.outputs)
    first, second = 0, next(n for n, record in enumerate(records) if record.key != records[0].key)
    a, b = records[first], records[second]
    records[first], records[second] = a._replace(value=b.value, id=b.id), b._replace(value=a.value, id=a.id)
    return outputs(whole, records)


def stale_store(half: Evidence, whole: Evidence) -> Evidence:
    """The local store kept a value that the changelog has left behind."""
    before, now = half.dumps["sum"][0].entries, whole.dumps["sum"][0]
    changed = next(key for key in before if now.entries.get(key, before[key]) != before[key])
    return with_store(whole, now._replace(entries={**now.entries, changed: before[changed]}))


def with_store(evidence: Evidence, first: LocalStore) -> Evidence:
    """Another local store of sums in the first partition."""
    return replace(evidence, dumps={**evidence.dumps, "sum": [first, *evidence.dumps["sum"][1:]]})


def lost_tombstone(half: Evidence, whole: Evidence) -> Evidence:
    """An account that was closed is there again, in the changelogs and in the stores."""
    before, after = half.dumps["sum"], whole.dumps["sum"]
    place, back = next(
        (n, key) for n in range(whole.partitions) for key in before[n].entries if key not in after[n].entries
    )
    changelogs, dumps = {}, {}
    for store in STORES:
        value = half.dumps[store][place].entries[back]
        changelogs[store] = [*whole.changelogs[store], Record(place, EVENTS * 9, back, value)]
        dumps[store] = list(whole.dumps[store])
        dumps[store][place] = LocalStore({**dumps[store][place].entries, back: value}, EVENTS * 9)
    return replace(whole, changelogs=changelogs, dumps=dumps)


def aborted_read(half: Evidence, whole: Evidence) -> Evidence:
    last = whole.outputs[-1]
    return replace(whole, watched=[*whole.watched, last._replace(offset=last.offset + 1)])


def wrong_partition(half: Evidence, whole: Evidence) -> Evidence:
    records = list(whole.outputs)
    records[0] = records[0]._replace(partition=(records[0].partition + 1) % whole.partitions, offset=EVENTS * 9)
    return outputs(whole, records)


BUGS = [
    (drop, "loss", {AMO}),
    (duplicate, "duplicates", {ALO, EFO}),
    (reorder, "order", set()),
    (cross_keys, "echo", set()),
    (stale_store, "store", set()),
    (lost_tombstone, "state", {AMO}),
    (aborted_read, "aborted-read", set()),
    (wrong_partition, "partition", set()),
]


def violations(evidence: Evidence, guarantee: Guarantee) -> set[str]:
    return {finding.check for finding in judge(evidence, guarantee, EVENTS).violations}


def test_a_run_without_bugs_keeps_its_promise_to_the_letter(run):
    guarantee, _, whole = run
    verdict = judge(whole, guarantee, EVENTS)
    assert verdict.findings == ()
    assert len(whole.outputs) == EVENTS
    assert all(whole.dumps[store][partition].entries for store in STORES for partition in range(whole.partitions))


@pytest.mark.parametrize(("task", "guarantee"), [("batch", EFO), ("pipeline", EO)])
def test_a_task_of_another_kind_keeps_the_same_promise(tmp_path, task, guarantee):
    _, whole = half_and_whole(guarantee, tmp_path, task)
    verdict = judge(whole, guarantee, EVENTS)
    assert verdict.findings == ()
    assert len(whole.outputs) == EVENTS


@pytest.mark.parametrize(("bug", "check", "allowed"), BUGS, ids=[bug.__name__ for bug, _, _ in BUGS])
def test_a_seeded_bug_is_found_by_its_check_unless_allowed(run, bug, check, allowed):
    guarantee, half, whole = run
    found = violations(bug(half, whole), guarantee)
    if guarantee in allowed:
        assert not found
    else:
        assert check in found


def test_a_late_output_of_a_stopped_run_is_allowed_in_at_most_once_only(run):
    guarantee, half, whole = run
    verdict = judge(reorder(half, whole), guarantee, EVENTS, may_be_late=True)
    found = {finding.check for finding in verdict.violations}
    assert ("order" in found) == (guarantee is not AMO)


def test_a_local_store_must_be_as_of_the_commit_that_its_marker_names(run):
    guarantee, half, whole = run
    earlier, now = half.dumps["sum"][0], whole.dumps["sum"][0]
    assert earlier.as_of < now.as_of
    assert violations(with_store(whole, earlier), guarantee) == set()
    assert violations(with_store(whole, LocalStore({}, -1)), guarantee) == set()
    assert violations(with_store(whole, now._replace(as_of=earlier.as_of)), guarantee) == {"store"}
    assert violations(with_store(whole, earlier._replace(as_of=now.as_of)), guarantee) == {"store"}


def double(evidence: Evidence) -> tuple[Evidence, Event]:
    """The last deposit into an open account is in the state twice, sum, count and chain."""
    key = next(iter(evidence.dumps["sum"][0].entries))
    last = [Event.decode(r.key, r.value) for r in evidence.inputs if r.key == key][-1]
    kept = {store: json.loads(evidence.dumps[store][0].entries[key]) for store in STORES}
    digest, length, tail = kept["chain"]
    chain = Chain(digest, length, tuple(tail)).link(last.id)
    doubled = {"sum": kept["sum"] + last.delta, "count": kept["count"] + 1, "chain": [*chain]}
    changelogs, dumps = {}, {}
    for store in STORES:
        value = json.dumps(doubled[store]).encode()
        changelogs[store] = [*evidence.changelogs[store], Record(0, EVENTS * 9, key, value)]
        dumps[store] = [
            LocalStore({**evidence.dumps[store][0].entries, key: value}, EVENTS * 9),
            *evidence.dumps[store][1:],
        ]
    return replace(evidence, changelogs=changelogs, dumps=dumps), last


def test_a_deposit_that_counts_twice_is_a_violation_in_every_guarantee(run):
    guarantee, _, whole = run
    doubled, last = double(whole)
    assert "state" in violations(doubled, guarantee)
    assert "state" in violations(echoed_twice(doubled, last), guarantee)


def echoed_twice(evidence: Evidence, event: Event) -> Evidence:
    (echo,) = [record for record in evidence.outputs if f'"id":{event.id},'.encode() in record.value]
    return replace(evidence, outputs=[*evidence.outputs, echo._replace(offset=EVENTS * 9)])


def test_a_sum_in_an_output_that_the_inputs_do_not_make_is_a_violation(run):
    guarantee, _, whole = run
    first = whole.outputs[0]
    higher = first._replace(value=first.value.replace(b'"sum":', b'"sum":9'))
    changed = [higher, *whole.outputs[1:]]
    assert violations(outputs(whole, changed), guarantee) == {"running-sum"}


def test_a_low_sum_is_a_violation_unless_updates_may_be_missing(run):
    guarantee, _, whole = run
    place, record = next((n, r) for n, r in enumerate(whole.outputs) if b'"count":2' in r.value)
    short = record._replace(value=record.value.replace(b'"count":2', b'"count":1'))
    changed = [*whole.outputs[:place], short, *whole.outputs[place + 1 :]]
    found = violations(outputs(whole, changed), guarantee)
    assert found == (set() if guarantee is AMO else {"running-sum"})


def test_an_input_that_was_not_committed_in_the_end_is_a_violation(run):
    guarantee, half, whole = run
    assert violations(replace(whole, checkpoints=half.checkpoints), guarantee) == {"lag"}


def test_an_input_that_is_twice_in_the_log_is_a_violation(run):
    guarantee, _, whole = run
    assert "input" in violations(replace(whole, inputs=[*whole.inputs, whole.inputs[0]]), guarantee)


def test_outputs_of_another_id_cannot_be_dropped_by_a_receiver(run):
    guarantee, _, whole = run
    nameless = [record._replace(id=None) for record in whole.outputs]
    found = violations(outputs(whole, nameless), guarantee)
    assert found == ({"output-id"} if guarantee is EFO else set())


def test_stores_that_are_out_of_reach_are_not_compared(run):
    guarantee, _, whole = run
    assert violations(replace(whole, dumps=None), guarantee) == set()
