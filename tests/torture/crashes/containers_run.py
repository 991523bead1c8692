"""A run of several containers in one process, a thread each: as a command, so that it can be stopped as a whole.

`python containers_run.py JOB.properties COUNT` runs until it is ended; exit code 1 and an `error: ` line for a failure.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import javaproperties

from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.container.supervision.job_records import JobRecords, Ownership
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import SamzapyError
from samzapy.runner.base import RunOptions
from samzapy.runner.checks import Checks
from samzapy.runner.handover import OwnershipWatch
from samzapy.runner.prepare import prepare


class ContainersRun:
    """One run of a job; it owns the job once it is made."""

    def __init__(self, flat, count, *, until_end=True):
        self._config = load_job(flat | {"job.container.count": str(count)})
        self.prepared = prepare(self._config, until_end=until_end)
        spec = JobSpec(
            self.prepared.model,
            self._config.raw,
            self.prepared.ends,
            run_id=self.prepared.run_id,
            transactions=self.prepared.transactions,
        )
        self._coordinator = Coordinator(
            self._config.name, spec, self._config.spark.lease_ms / 1000, epoch=self.prepared.epoch
        )

    def run(self):
        """Run every container to its end. Raises what the first of them failed with."""
        models = self.prepared.model.containers
        with self._watched(), ThreadPoolExecutor(len(models)) as pool:
            for done in [pool.submit(self._run, model) for model in models]:
                done.result()

    @contextmanager
    def _watched(self):
        checks = Checks(JobRecords.of(self._config, "checks"))
        with OwnershipWatch(
            Ownership(self._config.name, checks.records, self.prepared.run_id), self._coordinator, checks, RunOptions()
        ):
            yield

    def _run(self, model):
        with closing(Ownership.of(self._config, self.prepared.run_id)) as ownership:
            build_container(
                self._config,
                model,
                LocalLease(self._coordinator, model.id, ownership.poll),
                ends=self.prepared.ends,
                run_id=self.prepared.run_id,
                transactions=self.prepared.transactions,
            ).run()


def main(job_file, count):
    flat = javaproperties.loads(Path(job_file).read_text(encoding="utf-8"))
    try:
        ContainersRun(flat, int(count), until_end=False).run()
    except SamzapyError as failure:
        sys.exit(f"error: {type(failure).__name__}: {failure}")


if __name__ == "__main__":
    main(*sys.argv[1:])
