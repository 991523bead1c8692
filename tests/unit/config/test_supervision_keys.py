import logging
from pathlib import Path

from samzapy.config.supervision import LogConfig, SupervisionConfig


def test_without_keys_a_job_logs_at_info_reports_stalls_and_mirrors_its_positions(load):
    found = load().supervision
    assert found == SupervisionConfig()
    assert (found.stall_ms, found.stall_fails, found.mirror) == (30_000, False, True)
    assert found.log == LogConfig(logging.INFO, False, Path(".samzapy/logs"))


def test_every_key_is_read(load):
    found = load(
        {
            "job.log.level": "debug",
            "job.log.format": "json",
            "job.log.dir": "/var/log/jobs",
            "task.stall.ms": "0",
            "task.stall.policy": "fail",
            "job.offsets.mirror": "false",
        }
    ).supervision
    log = LogConfig(logging.DEBUG, True, Path("/var/log/jobs"))
    assert found == SupervisionConfig(log, 0, True, False)
