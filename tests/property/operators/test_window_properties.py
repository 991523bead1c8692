"""Windows against a naive computation over the complete inputs: partitions take turns in any order, windows are closed
at any moment, and the task crashes at any message and goes on from its last commit with another order of turns."""

import tempfile
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.windows_rig import LATE, WindowsRig, opened_store, sessions_of

from samzapy.operators.windows import Collect, Hopping, Sessions, Sliding, Sum, Tumbling, WindowedAggregation

#: Per partition (key, time) in the order of arrival; a key belongs to one partition, as with any keyed stream.
INPUTS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), min_size=3, max_size=16), min_size=1, max_size=2
)
#: How the store caches: not at all, a little, everything, copies.
CACHES = [("0", "1", "reference"), ("2", "1", "reference"), ("1000", "500", "reference"), ("1000", "500", "copy")]
#: How the store caches; whether windows are closed after each message; whose turn it is, or what else happens.
STEPS = st.tuples(
    st.sampled_from(CACHES),
    st.booleans(),
    st.lists(
        st.one_of(st.integers(0, 2), st.integers(0, 2), st.sampled_from(["advance", "advance", "commit", "crash"])),
        max_size=60,
    ),
)
GRACE = st.integers(0, 12)


def run(inputs, steps, windows, fold=None, value=lambda number: number):
    """The results as (key, start, end, values), and what was late, of a run with crashes; and after each `advance` up
    to where event time had come, and how many results there were."""
    spec = WindowedAggregation(windows, fold or Collect(), None, late=LATE)
    (size, batch, mode), often, steps = steps
    store = "stores.windows."
    cache = {f"{store}object.cache.size": size, f"{store}write.batch.size": batch, f"{store}object.cache.mode": mode}
    with tempfile.TemporaryDirectory() as folder, opened_store(folder, **cache) as opened:
        rig = WindowsRig(opened, spec, len(inputs))
        at, committed = [0] * len(inputs), [0] * len(inputs)
        advances = []

        def turn(partition):
            if at[partition] < len(inputs[partition]):
                key, time = inputs[partition][at[partition]]
                rig.add(f"{partition}{key}", time, value(at[partition]), partition)
                at[partition] += 1
                if often:
                    advance()

        def advance():
            rig.advance()
            newest = [max(time for _, time in seen[:n]) if n else None for seen, n in zip(inputs, at, strict=True)]
            if None not in newest:
                advances.append((min(newest), len(rig.sent.results)))

        for step in steps:
            if step == "advance":
                advance()
            elif step == "commit":
                rig.commit()
                committed = list(at)
            elif step == "crash":
                rig.crash()
                at = list(committed)
            else:
                turn(step % len(inputs))
        for partition, messages in enumerate(inputs):
            for _ in messages:
                turn(partition)
        rig.finish()
        assert all(result.kind == "final" for result in rig.sent.results)
        late = [(each.key, each.timestamp, each.message) for each in rig.sent.late]
        return [result[:4] for result in rig.sent.results], sorted(late), advances


def marked(inputs):
    """Every message as (key, time, number in its partition, newest time of its partition with it)."""
    for partition, messages in enumerate(inputs):
        newest = 0
        for number, (key, time) in enumerate(messages):
            newest = max(newest, time)
            yield f"{partition}{key}", time, number, newest


def expected_aligned(inputs, size, advance, grace):
    found, late = defaultdict(list), []
    for key, time, number, newest in marked(inputs):
        taken = False
        for start in range(-size, time + 1):
            if start % advance == 0 and start <= time < start + size and start + size + grace > newest:
                found[start + size, key, start].append(number)
                taken = True
        if not taken:
            late.append((key, time, number))
    return [(key, start, end, found[end, key, start]) for end, key, start in sorted(found)], sorted(late)


def expected_sliding(inputs, size, grace):
    """A value counts from the first window that was not over when it came; the windows end with the values in time.
    Of values of the same time those that opened no window come last."""
    accepted, ends, late = defaultdict(list), set(), []
    for key, time, number, newest in marked(inputs):
        if time + 1 + grace > newest:
            ends.add((time + 1, key))
        if time + size + grace > newest:
            accepted[key].append((time, newest - grace >= time + 1, number, newest - grace))
        else:
            late.append((key, time, number))
    return [
        (
            key,
            end - size,
            end,
            [n for time, _, n, over in sorted(accepted[key]) if end - size <= time < end and end > over],
        )
        for end, key in sorted(ends)
    ], sorted(late)


def expected_sessions(inputs, gap, grace):
    accepted, late = defaultdict(list), []
    for key, time, number, newest in marked(inputs):
        in_one = any(
            each[0][0] <= time < each[-1][0] + gap and each[-1][0] + gap + grace > newest
            for each in sessions_of(accepted[key], gap)
        )
        if time + grace >= newest or in_one:
            accepted[key].append((time, number))
        else:
            late.append((key, time, number))
    found = [
        (each[-1][0] + gap, key, each[0][0], sorted(number for _, number in each))
        for key, times in accepted.items()
        for each in sessions_of(times, gap)
    ]
    return [(key, start, end, numbers) for end, key, start, numbers in sorted(found)], sorted(late)


def check(inputs, steps, windows, expected, alike=lambda values: values, **folded):
    """Compare a run with what is expected, `alike` making values of either comparable."""
    results, late, advances = run(inputs, steps, windows, **folded)
    results = [(*window, alike(values)) for *window, values in results]
    in_time, too_late = expected
    assert late == too_late
    # Closed as soon as event time had come so far, and in order.
    assert results == in_time
    for clock, closed in advances:
        assert closed == sum(end + windows.grace_ms <= clock for _, _, end, _ in in_time)


@settings(max_examples=40)
@given(inputs=INPUTS, steps=STEPS, size=st.integers(1, 9), grace=GRACE)
def test_tumbling_windows_are_those_of_the_complete_inputs_whatever_happens(inputs, steps, size, grace):
    expected = expected_aligned(inputs, size, size, grace)
    check(inputs, steps, Tumbling(size, grace=grace), expected)


@settings(max_examples=40)
@given(inputs=INPUTS, steps=STEPS, advance=st.integers(1, 9), more=st.integers(0, 12), grace=GRACE)
def test_hopping_windows_are_those_of_the_complete_inputs_whatever_happens(inputs, steps, advance, more, grace):
    expected = expected_aligned(inputs, advance + more, advance, grace)
    check(inputs, steps, Hopping(advance + more, advance, grace=grace), expected)


@settings(max_examples=60)
@given(inputs=INPUTS, steps=STEPS, advance=st.integers(1, 5), overlap=st.integers(4, 7), grace=GRACE)
def test_windows_in_panes_are_those_of_the_complete_inputs_whatever_happens(inputs, steps, advance, overlap, grace):
    """Each value is a bit of the sum."""
    windows = Hopping(advance * overlap, advance, grace=grace)
    results, late = expected_aligned(inputs, windows.size_ms, advance, grace)
    sums = [(*window, sum(2**number for number in numbers)) for *window, numbers in results]
    late = sorted((key, time, 2**number) for key, time, number in late)
    check(inputs, steps, windows, (sums, late), fold=Sum(), value=lambda number: 2**number)


@settings(max_examples=40)
@given(inputs=INPUTS, steps=STEPS, size=st.integers(1, 9), grace=GRACE)
def test_sliding_windows_are_those_of_the_complete_inputs_whatever_happens(inputs, steps, size, grace):
    check(inputs, steps, Sliding(size, grace=grace), expected_sliding(inputs, size, grace))


@settings(max_examples=40)
@given(inputs=INPUTS, steps=STEPS, gap=st.integers(1, 5), grace=GRACE)
def test_sessions_are_those_of_the_complete_inputs_whatever_happens(inputs, steps, gap, grace):
    check(inputs, steps, Sessions(gap, grace=grace), expected_sessions(inputs, gap, grace), sorted)
