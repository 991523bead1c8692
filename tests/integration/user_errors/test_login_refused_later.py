"""A broker that refuses the login of a job that runs, and one that restarts."""

from contextlib import closing

import pytest
from rigs.numbered_job import NumberedJob
from secured_broker import SecuredBroker, both_sides, password

from samzapy.clock import SYSTEM_CLOCK
from samzapy.verify.processes import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("runner", ["local", "spark"])
def test_a_login_that_is_refused_later_ends_the_run_and_a_restart_does_not(tmp_path, unique_topic, runner):
    with SecuredBroker(tmp_path) as broker:
        keys = {"job.spark.master": "local[2]", "task.guarantee": "exactly-once", "task.commit.ms": "500"}
        job = NumberedJob(tmp_path, unique_topic("job"), broker.sasl, 2, **keys, **both_sides(password("bob", "bob")))

        def has_sent(count):
            return lambda: sum(job.streams.ends(f"{job.name}-out").values()) >= count

        job.write(100)
        with closing(job.start("--runner", runner)) as process:
            until(has_sent(100), lambda: process.last_words, 120)
            broker.restart_without()
            job.write(100)
            until(has_sent(200), lambda: process.last_words, 120)
            assert process.exit_code is None
            broker.restart_without("bob")
            began = SYSTEM_CLOCK.monotonic()
            assert process.wait() == 3, process.errors
            # No measurement: a commit that was under way waits for a minute, an ordinary failure would be repeated.
            assert SYSTEM_CLOCK.monotonic() - began < 120
            (error,) = [line for line in process.errors.splitlines() if line.startswith("error: ")]
            assert "authentication failed: " in error
