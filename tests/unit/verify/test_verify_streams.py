"""The streams of a verification outlast a broker that is too busy to answer."""

import pytest

from samzapy.api.system import SystemSettings
from samzapy.errors import RetriableError
from samzapy.testing import ManualClock
from samzapy.verify.evidence import Streams
from samzapy.verify.processes import NoProgress


class Busy:
    """An admin whose first calls time out."""

    def __init__(self, admin, clock, timeouts, each_s=10.0):
        self._admin = admin
        self._clock = clock
        self._left = timeouts
        self._each_s = each_s

    def __getattr__(self, name):
        def call(*arguments):
            if self._left:
                self._left -= 1
                self._clock.advance(self._each_s)
                raise RetriableError("v-out: Failed while waiting for controller: Local: Timed out")
            return getattr(self._admin, name)(*arguments)

        return call


@pytest.fixture
def streams(tmp_path):
    clock = ManualClock()
    properties = {"path": str(tmp_path / "local.db")}
    made = Streams(SystemSettings("local", "samzapy.system.local:LocalSystemFactory", properties=properties), clock)
    admin = made._admin
    made.busy = lambda timeouts: setattr(made, "_admin", Busy(admin, clock, timeouts))
    yield made
    admin.close()


def test_a_stream_is_created_and_deleted_once_the_broker_answers(streams):
    streams.busy(3)
    streams.create("v-in", 2)
    assert len(streams.partitions("v-in")) == 2
    streams.busy(3)
    streams.delete(["v-out", "v-in"])
    with pytest.raises(Exception, match="v-in"):
        streams.partitions("v-in")


def test_a_broker_that_never_answers_is_named(streams):
    streams.busy(1_000)
    with pytest.raises(NoProgress, match="not within 90 s: v-out: Failed while waiting for controller"):
        streams.create("v-in", 2)
