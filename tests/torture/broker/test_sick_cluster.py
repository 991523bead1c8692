"""Exactly-once and at-least-once side by side on a cluster of three to which everything happens that happens to
clusters.

Each job is a process of its own, fed all the time. Nobody helps it: after a fault it must be the same run, with nothing
lost, its outputs back within seconds, and little CPU used while the cluster was not whole. The faults follow one
another on one cluster.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import NamedTuple

import pytest
from cluster_jobs import OUTSIDE, ClusterJob
from live_ledger import for_seconds
from rigs.kafka_cluster import KafkaCluster
from rigs.numbered_stream import STORES, expected

from samzapy.clock import SYSTEM_CLOCK
from samzapy.verify.processes import resume, suspend, until, with_children

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

TOGETHER = ("at-least-once", "exactly-once")
#: Seconds that a node that was killed stays away, long enough that what a change of leaders costs for a second does not
#: hide what the absence costs; that others stay frozen; that two are down; that a quota lasts; that nothing happens.
AWAY_S, FROZEN_S, OUTAGE_S, LIMITED_S, QUIET_S = 25.0, 40.0, 120.0, 30.0, 20.0
#: The node whose disk runs full, and its bytes.
SMALL, DISK = 3, 400 << 20
NO_ROOM = "full disk of a broker"
#: Seconds for a job to catch up; of more input after that; for its last commit.
PATIENCE_S, SETTLED_S, COMMITTED_S = 150.0, 5.0, 30.0
#: Less than the jobs need, per second and client.
_LIMITS = {"producer_byte_rate": 2_000.0, "consumer_byte_rate": 2_000.0}


def kill(cluster, node):
    cluster.kill(node)
    for_seconds(AWAY_S)
    cluster.start(node)


def freeze(cluster, node):
    cluster.nodes[node].freeze()
    try:
        for_seconds(FROZEN_S)
    finally:
        cluster.nodes[node].thaw()


def restart_in_turn(cluster, jobs):
    for number, node in cluster.nodes.items():
        node.stop()
        cluster.start(number)
        cluster.wait_until_whole()


def lose_two(cluster, jobs):
    cluster.kill(1, 2)
    for_seconds(OUTAGE_S)
    cluster.start(1, 2)


def move_leaders(cluster, jobs):
    cluster.nodes[1].stop()
    cluster.start(1)
    cluster.wait_until_whole()
    assert cluster.elect_preferred()
    for_seconds(QUIET_S)


def limit(cluster, jobs):
    cluster.quota(OUTSIDE, dict.fromkeys(_LIMITS, 1e9))
    cluster.quota(None, _LIMITS)
    for_seconds(LIMITED_S)
    behind = [job.feeder.written - job.observer.outputs.total() for job in jobs]
    cluster.quota(None, dict.fromkeys(_LIMITS))
    assert min(behind) > 100, "the limits limit nothing"


def fill_a_disk(cluster, jobs):
    cluster.disks[SMALL].fill()
    until(lambda: cluster.nodes[SMALL].running is None, "a broker runs on without a disk")
    for_seconds(AWAY_S)
    cluster.disks[SMALL].make_room()
    cluster.start(SMALL)


def freeze_one_job(cluster, jobs):
    stopped = with_children(jobs[-1].process.process.pid)
    suspend(stopped)
    for_seconds(FROZEN_S)
    resume(stopped)


class Fault(NamedTuple):
    """`strike(cluster, jobs)` returns when nothing is broken any more; what was may still have to be repaired."""

    strike: object
    times: int = 1


FAULTS = {
    "nothing happens": Fault(lambda cluster, jobs: for_seconds(QUIET_S), 0),
    "broker 1 killed": Fault(lambda cluster, jobs: kill(cluster, 1)),
    "broker 2 killed": Fault(lambda cluster, jobs: kill(cluster, 2)),
    "broker 3 killed": Fault(lambda cluster, jobs: kill(cluster, 3)),
    "controller killed": Fault(lambda cluster, jobs: kill(cluster, cluster.controller())),
    "broker frozen 40 s": Fault(lambda cluster, jobs: freeze(cluster, cluster.controller() % 3 + 1)),
    "controller frozen 40 s": Fault(lambda cluster, jobs: freeze(cluster, cluster.controller())),
    "rolling restart": Fault(restart_in_turn, 3),
    "two of three down 120 s": Fault(lose_two, 2),
    "leaders moved away and back": Fault(move_leaders, 2),
    "client quota": Fault(limit),
    NO_ROOM: Fault(fill_a_disk),
    "one of two jobs frozen 40 s": Fault(freeze_one_job),
}


@pytest.fixture(scope="module")
def sick(tmp_path_factory):
    """(cluster, the jobs on it)."""
    with KafkaCluster(tmp_path_factory.mktemp("cluster"), {SMALL: DISK}) as cluster, ExitStack() as running:
        jobs = (ClusterJob(tmp_path_factory.mktemp(each), cluster.bootstrap, each) for each in TOGETHER)
        yield cluster, [running.enter_context(closing(job)) for job in jobs]


@pytest.fixture(scope="module", params=FAULTS)
def struck(sick, request):
    """(the name of a fault, what it did to each job by guarantee)."""
    cluster, jobs = sick
    if request.param == NO_ROOM and SMALL not in cluster.disks:
        pytest.skip("only root may mount a small disk")
    fault = FAULTS[request.param]
    with ThreadPoolExecutor(len(jobs)) as all_at_once:
        rounds = list(all_at_once.map(Round, jobs))
        fault.strike(cluster, jobs)
        whole = cluster.wait_until_whole()
        results = list(all_at_once.map(lambda each: each.result(whole, fault.times), rounds))
    return request.param, dict(zip(TOGETHER, results, strict=True))


class Round:
    """A job before a fault and after it. Between two of them nothing is written."""

    def __init__(self, job):
        self.job = job
        job.go_on()
        self.first = job.feeder.written
        assert job.comes_up_to(self.first, PATIENCE_S), job.process.last_words
        self.outputs = job.observer.outputs.total()
        job.feeder.go_on()
        assert job.comes_up_to(self.first + 100, PATIENCE_S), job.process.last_words
        self.began, self.busy_s = SYSTEM_CLOCK.monotonic(), job.busy_s()

    def result(self, whole, faults):
        """How it ended if it did, and what `outcome` is told, of a cluster that is whole since then."""
        job = self.job
        now = SYSTEM_CLOCK.monotonic()
        cpu_percent = 100 * (job.busy_s() - self.busy_s) / (now - self.began)
        job.comes_up_to(job.feeder.written, PATIENCE_S)
        recovered = SYSTEM_CLOCK.monotonic()
        for_seconds(SETTLED_S)
        silent_s = job.observer.silence(whole, SYSTEM_CLOCK.monotonic())
        last = job.feeder.pause(PATIENCE_S)
        job.comes_up_to(last, PATIENCE_S)
        mismatches = job.differences(last, COMMITTED_S)
        numbers = range(self.first, last)
        came = sum(number in job.observer.outputs for number in numbers)
        ended = "" if job.process.exit_code is None else job.process.last_words
        return ended, {
            "guarantee": job.guarantee,
            "system": "kafka",
            "events": len(numbers),
            "faults": faults,
            "lost": len(numbers) - came,
            "duplicated": job.observer.outputs.total() - self.outputs - came,
            "mismatches": mismatches,
            "recovery_s": recovered - whole,
            "silent_s": silent_s,
            "cpu_percent": cpu_percent,
        }


@pytest.mark.parametrize("guarantee", TOGETHER)
def test_a_sick_cluster_costs_no_promise_and_needs_nobody(struck, guarantee, outcome):
    scenario, results = struck
    ended, measured = results[guarantee]
    assert not ended, measured
    outcome(f"three nodes: {scenario}", **measured)


@pytest.mark.parametrize("guarantee", TOGETHER)
def test_stores_that_outlasted_a_sick_cluster_are_right_on_disk(sick, guarantee):
    job = next(job for job in sick[1] if job.guarantee == guarantee)
    job.go_on()
    job.process.terminate()
    assert job.process.wait() == 0, job.process.last_words
    assert tuple(job.stored()[store] for store in STORES) == expected(job.feeder.written)
