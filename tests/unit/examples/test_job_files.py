"""The job files that the repository ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from samzapy.config.loader import load_job
from samzapy.container.tasks.task_builder import load_task_class

CONFIGS = Path(__file__).parents[3] / "configs"
#: What job files expect to be set.
ENVIRONMENT = {"REGISTRY_USER": "user:password"}
#: `samzapy bench store` reads its own kind of file.
JOBS = [path for path in sorted(CONFIGS.rglob("*.properties")) if path.stem != "store"]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_shipped_job_file_loads_without_a_warning_and_names_a_task(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)
    job = load_job(path, strict=True, environ=ENVIRONMENT)
    assert job.warnings == ()
    load_task_class(job.task.task_class)
