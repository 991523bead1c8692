"""A job of the counting task, with one input of one partition."""

import pytest
from replayed_job import ReplayedJob


@pytest.fixture
def job(tmp_path):
    made = ReplayedJob(tmp_path)
    made.create("in", "out")
    yield made
    made.admin.close()
