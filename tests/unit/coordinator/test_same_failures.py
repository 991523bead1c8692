import pytest

from samzapy.container.errors.user_failures import user_failure
from samzapy.coordinator.coordinator import SAME_FAILURES, Coordinator, LocalLease
from samzapy.coordinator.progress import SOUND_S, SameFailures
from samzapy.coordinator.status import ContainerFailure
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import UserFailure
from samzapy.job.planner import ContainerModel, JobModel
from samzapy.runner.spark.worker import unexpected_failure
from samzapy.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def failures(clock):
    return SameFailures(3, clock)


def at(first, last=None, exception="KeyError"):
    return UserFailure(exception, "", "T", f"process of m.in[0]@{first}", "", "", "m.in[0]", first, last or first)


def test_the_same_exception_at_the_same_message_counts_however_long_it_takes(failures, clock):
    assert failures.times(at(17)) == 1
    clock.advance(10 * SOUND_S)
    assert failures.times(at(17)) == 2
    assert failures.times(at(17)) == 3


def test_another_exception_or_another_message_is_counted_for_itself(failures):
    others = (at(17), at(18), at(17, exception="ValueError"), at(17), at(18))
    assert [failures.times(other) for other in others] == [1, 1, 1, 2, 2]


def test_a_batch_that_is_cut_elsewhere_and_has_some_of_the_messages_fails_again(failures):
    assert [failures.times(batch) for batch in (at(10, 20), at(15, 30), at(17, 40), at(50, 60))] == [1, 2, 3, 1]


def test_a_failure_without_a_message_counts_only_soon_after_the_one_before(failures, clock):
    init = UserFailure("OSError", "", "T", "init")
    assert failures.times(init) == 1
    clock.advance(SOUND_S)
    assert [failures.times(init) for _ in range(3)] == [1, 2, 3]
    assert failures.times(UserFailure("OSError", "", "T", "window")) == 1


def test_what_says_nothing_about_the_users_code_is_not_counted():
    job = Coordinator("job", JobSpec(JobModel((ContainerModel("0", ()),)), {}), 15.0)
    for _ in range(SAME_FAILURES):
        lease = LocalLease(job, "0")
        assert not job.fail(ContainerFailure("0", lease.epoch, "Unreachable", "no answer", 3))


def test_the_traceback_of_a_failure_is_passed_on_the_first_time():
    heard = []
    spec = JobSpec(JobModel((ContainerModel("0", ()),)), {})
    job = Coordinator("job", spec, 15.0, listen=lambda container, failure: heard.append((container, failure)))
    for _ in range(3):
        job.fail(ContainerFailure("0", LocalLease(job, "0").epoch, "TaskFailed", "no", 1, user=at(3)))
    assert heard == [("0", at(3))]


def test_the_last_failure_of_a_kind_is_permanent_whichever_attempt_it_ended():
    model = JobModel((ContainerModel("0", ()),))
    job = Coordinator("job", JobSpec(model, {}), 15.0)
    verdicts = []
    for _ in range(SAME_FAILURES):
        lease = LocalLease(job, "0")
        verdicts.append(job.fail(ContainerFailure("0", lease.epoch, "TaskFailed", "no", 1, user=at(3))))
    assert verdicts == [False, False, False, True]
    assert [each.permanent for each in job.status().failures] == verdicts
    assert job.status().failures[-1].message == "no; failed attempts of this kind: 4"


def test_a_short_trouble_of_the_host_is_no_repeated_failure_of_its_containers():
    ids = ("0", "1", "2", "3")
    job = Coordinator("job", JobSpec(JobModel(tuple(ContainerModel(each, ()) for each in ids)), {}), 15.0)

    def fail(container_id):
        error = unexpected_failure(container_id, OSError("No space left on device"))
        epoch = LocalLease(job, container_id).epoch
        return job.fail(ContainerFailure(container_id, epoch, "SamzapyError", str(error), 1, user=user_failure(error)))

    assert [fail(each) for each in ids] == [False] * 4
    assert [fail("0") for _ in range(3)] == [False, False, True]
