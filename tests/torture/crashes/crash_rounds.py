"""One job that is crashed at one point after the other: each round sends, crashes, starts again and measures."""

from contextlib import contextmanager

import pytest
from crash_job import measured

from samzapy.failpoints import FailPointReached, arm, disarm


class CrashRounds:
    """`job` in rounds of `events` messages; `lost_state`: every start after a crash finds no local state."""

    def __init__(self, job, guarantee, events, *, lost_state=False):
        self.job = job
        self._guarantee = guarantee
        self._events = events
        self._lost_state = lost_state
        self._folder = job.flat["job.logged.store.base.dir"]
        self._round = 0

    def run(self, point, nth=1, look=lambda job: None):
        """Crash at the `nth` passing of the point, start again, and return what happened to the round's messages.
        `look` is called between the crash and the start."""
        job = self.job
        before, outputs_before = job.state(), job.outputs()
        ids = range(job.sent, job.sent + self._events)
        job.send(self._events)
        self._crash(point, nth)
        look(job)
        self._round += 1
        if self._lost_state:
            job.flat["job.logged.store.base.dir"] = f"{self._folder}-{self._round}"
        job.run()
        outputs, state = job.outputs() - outputs_before, job.state()
        changed = [key for key, kept in before.items() if state.get(key, [])[: len(kept)] != kept]
        assert not changed, f"what was committed before the round has changed: {changed}"
        return {"events": self._events, "faults": 1, **measured(outputs, state, ids, self._guarantee, before)}

    def _crash(self, point, nth):
        arm(point, nth)
        try:
            with pytest.raises(FailPointReached):
                self.job.run()
        finally:
            disarm()


class RoundsByCase:
    """The jobs of a test module; one that did not get through a round is not used again."""

    def __init__(self):
        self._idle = {}

    @contextmanager
    def of(self, case, make):
        """The rounds of a case, made by `make` the first time."""
        rounds = self._idle.pop(case, None) or self._started(make())
        try:
            yield rounds
        except BaseException:
            rounds.job.close()
            raise
        self._idle[case] = rounds

    def close(self):
        for rounds in self._idle.values():
            rounds.job.close()

    @staticmethod
    def _started(rounds):
        """The first run creates topics and stores and commits where every task begins."""
        rounds.job.send(20)
        rounds.job.run()
        return rounds
