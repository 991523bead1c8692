"""The checkpoints of tasks' own states, in a dict that outlives its task as a broker does."""


class KeptStates:
    """What the topic of states keeps of one task."""

    def __init__(self):
        self.values = {}

    def persist(self, time_ms, value):
        self.values[time_ms] = value

    def times(self):
        return sorted(self.values)

    def recover(self, time_ms):
        return self.values[time_ms]

    def remove(self, times):
        for time_ms in times:
            self.values.pop(time_ms, None)

    def place(self, time_ms):
        return str(time_ms)
