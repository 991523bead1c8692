"""What every system promises its readers, of the tables of a database: the contract's tests that only read."""

import pytest
from tables_under_test import TablesUnderTest
from test_system_admin_contract import (
    test_an_unknown_stream_is_described_as_none,  # noqa: F401
    test_streams_are_listed_in_order,  # noqa: F401
)
from test_system_contract import (  # noqa: F401
    test_a_batch_is_columns_of_equal_length,
    test_a_batch_without_headers_has_no_headers_column,
    test_a_busy_partition_does_not_starve_another,
    test_a_new_partition_is_empty_and_starts_at_zero,
    test_a_paused_partition_returns_nothing_and_keeps_its_position,
    test_a_poll_returns_at_most_the_records_asked_for,
    test_a_poll_without_records_returns_nothing_at_the_time_out,
    test_a_reader_is_at_the_end_after_the_last_record,
    test_a_reader_starts_at_the_offset_it_registered,
    test_a_waiting_reader_gets_what_is_written_later,
    test_an_empty_partition_is_at_its_end,
    test_an_unknown_partition_cannot_be_read,
    test_an_unknown_stream_cannot_be_read,
    test_reading_beyond_the_end_fails,
    test_records_come_back_in_the_order_sent_with_growing_offsets,
)

from samzapy.api.system import StreamSpec
from samzapy.errors import EnvironmentFailure


@pytest.fixture
def system(tmp_path):
    under_test = TablesUnderTest(tmp_path / "tables.db")
    yield under_test
    under_test.close()


def test_closing_twice_is_allowed(system):
    stream = system.create()
    for client in (system.reader((system.ssp(stream), 0)), system.factory.admin(system.settings, "a")):
        client.close()
        client.close()


@pytest.mark.parametrize(
    "change",
    [lambda system, stream: system.admin.create(StreamSpec(stream, 1)), lambda system, stream: system.producer()],
    ids=["create", "produce"],
)
def test_whatever_would_change_the_database_is_refused_in_one_line(system, change):
    stream = system.create()
    with pytest.raises(EnvironmentFailure, match=r"tables of a database are read|read only") as refused:
        change(system, stream)
    assert "\n" not in str(refused.value)
