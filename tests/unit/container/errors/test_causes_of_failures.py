"""Which failures of `process` meet its error policy, and which end the attempt under every policy."""

import pytest

from samzapy.container.errors.recovery import is_about_its_message
from samzapy.errors import ProducerError, SerdeError, StoreError, StoreRefused, TaskMigrated


@pytest.mark.parametrize(
    "failure",
    [StoreError("s"), SerdeError("s"), ProducerError("s"), TaskMigrated("s"), SystemExit(), KeyboardInterrupt()],
    ids=lambda failure: type(failure).__name__,
)
def test_a_failure_without_a_message_ends_the_attempt_under_every_policy(failure):
    assert not is_about_its_message(failure)


@pytest.mark.parametrize(
    "failure",
    [StoreRefused("s"), SerdeError("s", refused=True), KeyError("k")],
    ids=lambda failure: type(failure).__name__,
)
def test_a_failure_that_its_message_caused_meets_the_policy(failure):
    assert is_about_its_message(failure)
