"""The four guarantees on a cluster of three nodes that loses the leader of what matters, again and again."""

import pytest
from kafka_cluster import KafkaCluster
from live_ledger import LiveLedger, load_on
from outcomes import GUARANTEES

pytestmark = pytest.mark.kafka

THREE_COPIES = {"stores.ledger.changelog.replication.factor": "3", "task.checkpoint.replication.factor": "3"}


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """All guarantees at once: (job, longest recovery in seconds, nodes lost) by guarantee."""
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        address = cluster.bootstrap
        jobs = [
            LiveLedger(address, address, tmp_path_factory.mktemp("state"), guarantee, **THREE_COPIES)
            for guarantee in GUARANTEES
        ]
        for job in jobs:
            job.send(20)
            job.start()
        recoveries = dict.fromkeys(GUARANTEES, 0.0)
        # The coordinator of the transactions, the leader of an input, and of what each guarantee's state lives in.
        topics = ["__transaction_state", f"{jobs[0].prefix}-in", *(f"{job.prefix}-changelog" for job in jobs[2:])]
        with load_on(jobs):
            for topic in topics:
                lost = cluster.nodes[cluster.leader(topic)]
                assert lost.kill()
                for job in jobs:
                    recoveries[job.guarantee] = max(recoveries[job.guarantee], job.catch_up())
                lost.start()
                cluster.wait_until_whole()
        yield {job.guarantee: (job, recoveries[job.guarantee], len(topics)) for job in jobs}
        for job in jobs:
            job.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_cluster_that_loses_the_leader_under_load_costs_no_promise(losses, guarantee, outcome):
    job, recovery_s, lost = losses[guarantee]
    outcome(
        "one node of three killed under load",
        guarantee=guarantee,
        system="kafka",
        events=job.sent,
        faults=lost,
        recovery_s=recovery_s,
        **job.finish(),
    )
