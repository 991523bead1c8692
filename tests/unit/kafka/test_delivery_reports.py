from confluent_kafka import KafkaError

from samzapy.system.kafka.queue import DeliveryReports


class Delivered:
    """What a report reads of librdkafka's message, which cannot be made by hand."""

    def __init__(self, offset, partition=0):
        self._offset, self._partition = offset, partition

    def offset(self):
        return self._offset

    def partition(self):
        return self._partition


def test_settling_gives_the_last_offset_once():
    reports = DeliveryReports()
    reports.callback("t", 0)(None, Delivered(4))
    reports.callback("t", 0)(None, Delivered(5))
    assert reports.settle() == {("t", 0): 5}
    assert reports.settle() == {}


def test_a_failure_is_found_behind_and_before_successes():
    reports = DeliveryReports()
    report = reports.callback("t", 0)
    report(None, Delivered(4))
    report(KafkaError(KafkaError._TIMED_OUT), Delivered(-1))
    report(None, Delivered(5))
    assert [error.code() for error, _ in reports.failures()] == [KafkaError._TIMED_OUT]


def test_a_partition_with_failures_only_is_found():
    reports = DeliveryReports()
    reports.callback("t", 0)(KafkaError(KafkaError._TIMED_OUT), Delivered(-1))
    assert len(list(reports.failures())) == 1


def test_records_whose_partition_is_chosen_elsewhere_have_no_last_offset():
    reports = DeliveryReports()
    report = reports.callback("t", None)
    for offset, partition in ((1, 0), (7, 1), (2, 0)):
        report(None, Delivered(offset, partition))
    assert list(reports.failures()) == []
    assert reports.settle() == {}


def test_a_failure_of_such_a_record_is_found():
    reports = DeliveryReports()
    reports.callback("t", None)(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), Delivered(-1))
    assert [error.code() for error, _ in reports.failures()] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_clearing_forgets_reports():
    reports = DeliveryReports()
    reports.callback("t", 0)(KafkaError(KafkaError._PURGE_QUEUE), Delivered(-1))
    reports.clear()
    assert list(reports.failures()) == []
    assert reports.settle() == {}
