"""Jobs to replay."""

from contextlib import ExitStack

import pytest
from replayed_job import JOB, ReplayedJob


@pytest.fixture
def new_job(tmp_path):
    """Makes a job with these streams of one partition."""
    with ExitStack() as stack:

        def make(*streams, text=JOB, **keys):
            job = ReplayedJob(tmp_path, text, **keys)
            stack.callback(job.admin.close)
            job.create(*streams)
            return job

        yield make


@pytest.fixture
def job(new_job):
    """A job of the counting task, with one input."""
    return new_job("in", "out")
