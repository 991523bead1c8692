"""Leases agree with a model that looks at every grant each time, whatever has happened to them."""

from hypothesis import given
from hypothesis import strategies as st

from samzapy.coordinator.leases import ContainerState, Leases
from samzapy.testing import ManualClock

IDS = ("0", "1", "2")
LEASE_S = 15.0
WHO = st.sampled_from(IDS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 20)),
        st.tuples(st.sampled_from(["grant", "renew", "outgrow", "done", "lost", "look"]), WHO),
    ),
    max_size=60,
)


class Model:
    """State, end and epoch of each grant."""

    def __init__(self):
        self.grants = dict.fromkeys(IDS)
        self.attempts = dict.fromkeys(IDS, 0)

    def overdue(self, now):
        return tuple(
            each
            for each in IDS
            if self.grants[each] and self.grants[each][0] == "running" and now >= self.grants[each][1]
        )

    def standings(self, now):
        late = self.overdue(now)
        return [
            ("waiting", 0, None)
            if self.grants[each] is None
            else ("lost" if each in late else self.grants[each][0], self.attempts[each], self.grants[each][2])
            for each in IDS
        ]


def follow(model, leases, clock, step, who):
    grant, now = model.grants[who], clock.monotonic()
    if step == "grant":
        model.grants[who] = ["running", now + LEASE_S, leases.grant(who)]
        model.attempts[who] += 1
    elif grant is None:
        return
    elif step == "renew":
        leases.renew(who, grant[2])
        grant[:2] = ["done" if grant[0] == "done" else "running", now + LEASE_S]
    elif step == "outgrow":
        grant[2] = leases.outgrow(who, grant[2], 2_000_000)
    elif step in {"done", "lost"}:
        leases.finish(who, grant[2], ContainerState(step))
        grant[0] = step


@given(STEPS)
def test_what_is_kept_between_two_looks_changes_no_answer(steps):
    clock = ManualClock(1_000_000)
    model, leases = Model(), Leases(IDS, LEASE_S, clock)
    known = {}
    for step, detail in steps:
        if step == "pass":
            clock.advance(detail)
        elif step == "look":
            known.update(leases.take_moved())
            assert [known[each] for each in IDS] == model.standings(clock.monotonic())
            assert leases.overdue == model.overdue(clock.monotonic())
        else:
            follow(model, leases, clock, step, detail)
    assert leases.standings(IDS) == model.standings(clock.monotonic())
