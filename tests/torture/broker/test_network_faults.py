"""The four guarantees behind a network that resets, swallows, delays and delivers late; on a real Kafka."""

from contextlib import contextmanager

import psutil
import pytest
from live_ledger import LiveLedger, for_seconds, load_on
from outcomes import GUARANTEES
from rigs.tcp_proxy import Way

from samzapy.clock import SYSTEM_CLOCK

pytestmark = pytest.mark.kafka

#: How much of a core a job may use while it waits for the network.
MOST_CORES = 0.2
#: Client time-outs short enough for faults of a few seconds to expire them.
SHORT = {"systems.sys.consumer.socket.timeout.ms": "2000", "systems.sys.producer.socket.timeout.ms": "2000"}


def reset_three_times(proxy):
    for _ in range(3):
        proxy.reset()
        for_seconds(1)


def refuse(proxy):
    proxy.refuse()
    proxy.reset()
    for_seconds(3)


FAULTS = {
    "connections reset": reset_three_times,
    "black hole": lambda proxy: (proxy.black_hole(), for_seconds(6)),
    "requests lost": lambda proxy: (proxy.half_open(Way.REQUEST), for_seconds(4)),
    "responses lost": lambda proxy: (proxy.half_open(Way.RESPONSE), for_seconds(4)),
    "connections refused": refuse,
}


@pytest.fixture(scope="module")
def broken_network(proxied, tmp_path_factory):
    """All guarantees at once through every fault under load: (job, recovery seconds) by guarantee, cores by fault."""
    direct, proxy = proxied
    jobs = [
        LiveLedger(direct, f"127.0.0.1:{proxy.port}", tmp_path_factory.mktemp("state"), guarantee, **SHORT)
        for guarantee in GUARANTEES
    ]
    recoveries, cores = dict.fromkeys(GUARANTEES, 0.0), {}
    for job in jobs:
        job.send(20)
        job.start()
    with load_on(jobs):
        for name, fault in FAULTS.items():
            with measured_cores(cores, name):
                fault(proxy)
            proxy.heal()
            for job in jobs:
                recoveries[job.guarantee] = max(recoveries[job.guarantee], job.catch_up())
    yield {job.guarantee: (job, recoveries[job.guarantee]) for job in jobs}, cores
    for job in jobs:
        job.close()


@contextmanager
def measured_cores(cores, name):
    """Stores under `name` how many cores this process kept busy meanwhile."""
    began, used = SYSTEM_CLOCK.monotonic(), busy_seconds()
    yield
    cores[name] = (busy_seconds() - used) / (SYSTEM_CLOCK.monotonic() - began)


def busy_seconds():
    times = psutil.Process().cpu_times()
    return times.user + times.system


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_broken_network_under_load_keeps_the_promise(broken_network, guarantee, outcome):
    job, recovery_s = broken_network[0][guarantee]
    outcome(
        "broken network under load",
        guarantee=guarantee,
        system="kafka",
        events=job.sent,
        faults=len(FAULTS) + 2,
        recovery_s=recovery_s,
        **job.finish(),
    )


def test_waiting_for_the_network_is_no_spin(broken_network):
    cores = broken_network[1]
    assert cores["black hole"] < MOST_CORES * len(GUARANTEES)
    assert cores["requests lost"] < MOST_CORES * len(GUARANTEES)
