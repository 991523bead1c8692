"""Whatever the order in which messages end, the position is the first offset that is not done."""

from hypothesis import given
from hypothesis import strategies as st

from samzapy.container.tasks.async_message import ContiguousPrefix


@st.composite
def lives(draw):
    """Offsets with holes, and an order in which they are taken and completed."""
    gaps = draw(st.lists(st.integers(0, 3), max_size=40))
    start = draw(st.integers(0, 1_000))
    offsets, at = [], start
    for gap in gaps:
        at += gap
        offsets.append(at)
        at += 1
    steps, waiting, taken = [], [], 0
    while taken < len(offsets) or waiting:
        if taken < len(offsets) and (not waiting or draw(st.booleans())):
            steps.append(("take", offsets[taken]))
            waiting.append(offsets[taken])
            taken += 1
        else:
            done = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            steps.append(("complete", done))
            if draw(st.integers(0, 9)) == 0:
                break
    return start, steps


@given(lives())
def test_the_position_is_after_the_longest_run_of_completed_offsets_from_the_start(life):
    start, steps = life
    prefix = ContiguousPrefix(start)
    taken, complete, before = [], set(), start
    for step, offset in steps:
        if step == "take":
            taken.append(offset)
            prefix.accept(offset)
        else:
            complete.add(offset)
            assert prefix.complete(offset) == prefix.position
        run = []
        for each in taken:
            if each not in complete:
                break
            run.append(each)
        assert prefix.position == (run[-1] + 1 if run else start)
        assert prefix.position >= before
        assert all(each >= prefix.position for each in taken if each not in complete)
        before = prefix.position
