"""A clock that a test moves by hand."""


class StoppedClock:
    def __init__(self):
        self.ms = 1_700_000_000_000

    def monotonic(self):
        return self.ms / 1000

    def wall_ms(self):
        return self.ms
