"""The four guarantees on a broker that is killed and restarted under load."""

import pytest
from live_ledger import LiveLedger, load_on
from outcomes import GUARANTEES

from samzapy.devkafka import DevBroker

pytestmark = pytest.mark.kafka

#: What happens to the broker, in this order.
BOUNCES = ("kill", "stop", "kill", "stop", "kill")


@pytest.fixture(scope="module")
def bounced(tmp_path_factory):
    """All guarantees at once on a broker that comes and goes: (job, longest recovery in seconds) by guarantee."""
    with DevBroker(tmp_path_factory.mktemp("bounced"), tied=True) as broker:
        address = broker.running.bootstrap
        jobs = [LiveLedger(address, address, tmp_path_factory.mktemp("state"), guarantee) for guarantee in GUARANTEES]
        for job in jobs:
            job.send(20)
            job.start()
        recoveries = dict.fromkeys(GUARANTEES, 0.0)
        with load_on(jobs):
            for bounce in BOUNCES:
                assert getattr(broker, bounce)()
                assert broker.start() == address
                for job in jobs:
                    recoveries[job.guarantee] = max(recoveries[job.guarantee], job.catch_up())
        yield {job.guarantee: (job, recoveries[job.guarantee]) for job in jobs}
        for job in jobs:
            job.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_broker_that_is_killed_and_restarted_under_load_costs_no_promise(bounced, guarantee, outcome):
    job, recovery_s = bounced[guarantee]
    outcome(
        "broker killed and restarted under load",
        guarantee=guarantee,
        system="kafka",
        events=job.sent,
        faults=len(BOUNCES),
        recovery_s=recovery_s,
        **job.finish(),
    )
