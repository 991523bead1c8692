"""A job in a folder of its own."""

import pytest
from job_files import JobFolder


@pytest.fixture
def job(tmp_path):
    made = JobFolder(tmp_path)
    made.create_log()
    yield made
    made.admin.close()
