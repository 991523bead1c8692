"""A clock on which time passes by itself."""

from samzapy.testing import ManualClock


class TickingClock(ManualClock):
    """Each look at it takes so many seconds."""

    def __init__(self, step_s):
        super().__init__()
        self._step_s = step_s

    def monotonic(self):
        self.advance(self._step_s)
        return super().monotonic()
