"""Requests and responses of transactions that come too late: the class of faults that tears transactions apart."""

import pytest
from live_ledger import LiveLedger, for_seconds, load_on
from rigs.tcp_proxy import Api, Way

pytestmark = pytest.mark.kafka
#: librdkafka gives up on an answer, and sends again, before samzapy gives up on librdkafka.
ITS_OWN_RETRY = {"systems.sys.producer.socket.timeout.ms": "1000"}
#: samzapy gives up first.
OUR_TIME_OUT = {
    "systems.sys.samza.factory": "live_ledger:ImpatientKafka",
    "systems.sys.producer.socket.timeout.ms": "6000",
}


def late(api_key, way, count=1):
    """A fault: frames of one kind are held until the job goes on without them, and come when it is at work again."""

    def strike(proxy, job):
        hold = proxy.hold(api_key, way, count)
        hold.wait()
        job.catch_up()
        for_seconds(0.5)
        proxy.heal()
        if way is Way.REQUEST:
            hold.wait_until_answered()

    return strike


def cut_behind(api_key):
    """A fault: the connection is lost when a request of this kind is under way; it arrives later."""

    def strike(proxy, job):
        hold = proxy.hold(api_key)
        hold.wait()
        proxy.cut(hold)
        job.catch_up()
        for_seconds(0.5)
        proxy.heal()
        hold.wait_until_answered()

    return strike


def restarted_without_an_answer(proxy, job):
    """A fault: the answer to a take-over is lost."""
    hold = proxy.hold(Api.INIT_PRODUCER_ID, Way.RESPONSE)
    proxy.cut()
    hold.wait()
    job.catch_up()
    proxy.heal()


LATE = {
    "end requested": late(Api.END_TXN, Way.REQUEST),
    "end answered": late(Api.END_TXN, Way.RESPONSE),
    "end requested, connection lost": cut_behind(Api.END_TXN),
    "partitions added": late(Api.ADD_PARTITIONS_TO_TXN, Way.REQUEST),
    "partitions added, connection lost": cut_behind(Api.ADD_PARTITIONS_TO_TXN),
    "records answered": late(Api.PRODUCE, Way.RESPONSE, 2),
    "records sent": late(Api.PRODUCE, Way.REQUEST),
    "take-over answered": restarted_without_an_answer,
}


@pytest.mark.parametrize("patience", ["its own retry", "our time-out"])
@pytest.mark.parametrize("guarantee", ["effectively-once", "exactly-once"])
def test_late_requests_and_answers_tear_no_transaction(proxied, tmp_path, guarantee, patience, outcome):
    direct, proxy = proxied
    keys = ITS_OWN_RETRY if patience == "its own retry" else OUR_TIME_OUT
    job = LiveLedger(direct, f"127.0.0.1:{proxy.port}", tmp_path, guarantee, **keys)
    job.send(20)
    job.start()
    recovery_s = 0.0
    with load_on([job]):
        for strike in LATE.values():
            strike(proxy, job)
            recovery_s = max(recovery_s, job.catch_up())
    result = job.finish()
    job.close()
    outcome(
        f"late transactional requests, {patience}",
        guarantee=guarantee,
        system="kafka",
        events=job.sent,
        faults=len(LATE),
        recovery_s=recovery_s,
        **result,
    )


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once"])
def test_records_that_librdkafka_sends_again_are_written_once(proxied, tmp_path, guarantee, outcome):
    direct, proxy = proxied
    job = LiveLedger(direct, f"127.0.0.1:{proxy.port}", tmp_path, guarantee, **ITS_OWN_RETRY)
    job.send(20)
    job.start()
    with load_on([job]):
        for strike in (late(Api.PRODUCE, Way.RESPONSE, 3), late(Api.PRODUCE, Way.REQUEST), cut_behind(Api.PRODUCE)):
            strike(proxy, job)
            job.catch_up()
    result = job.finish()
    job.close()
    assert not job.failures
    assert not result["duplicated"]
    outcome(
        "late acknowledgements",
        guarantee=guarantee,
        system="kafka",
        events=job.sent,
        faults=3,
        recovery_s=None,
        **result,
    )
