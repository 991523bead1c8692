"""Runs one job in this process, and prints one line of JSON for `samzapy.bench.measuring`.

Standard output has only this line: what the job prints goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from samzapy.admin.user_code import make_importable
from samzapy.bench.measuring import LOCAL, MAIN, SPARK, WORKER
from samzapy.bench.tasks import MARKS_KEY, read_stretch
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import SamzapyError
from samzapy.runner.base import JobOutcome, RunOptions
from samzapy.runner.local import runner_of
from samzapy.runner.prepare import prepare


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m samzapy.bench.child")
    parser.add_argument("job")
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--runner", choices=(LOCAL, SPARK), default=LOCAL)
    parser.add_argument("--endless", action="store_true", help="run until the tasks stop the job")
    options = parser.parse_args(arguments)
    overrides = {key: value for key, _, value in (override.partition("=") for override in options.config)}
    report = _own_output()
    try:
        config = load_job(options.job, overrides)
        make_importable(config)
        measured = run(config, options.runner, until_end=not options.endless)
    except SamzapyError as failure:
        # The failure comes last, after everything that the job has printed.
        sys.stdout.flush()
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
        return failure.exit_code
    with report:
        report.write(json.dumps(measured) + "\n")
    return 0


def _own_output() -> IO[str]:
    """The standard output of this process, for the report alone. From now on the job, its processes and exit handlers
    print to standard error."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return report


def run(config: JobConfig, runner: str, *, until_end: bool) -> dict[str, Any]:
    """Run the job and describe the run: by the marks of its tasks if there are any, else by the runner's outcome."""
    began = time.monotonic()
    prepared = prepare(config, until_end=until_end)
    start, cpu = time.monotonic(), time.process_time()
    outcome = runner_of(runner).run(prepared, RunOptions())
    end, used = time.monotonic(), time.process_time() - cpu
    marks = config.resolved.get(MARKS_KEY)
    stretch = read_stretch(Path(marks)) if marks else None
    measured: dict[str, Any] = {"messages": outcome.status.processed, "more": _more(outcome)}
    measured["more"] |= {"prepare_s": start - began, "run_s": end - start}
    if stretch is not None:
        if stretch.first is not None:
            measured["more"]["first_message_s"] = stretch.first - start
        measured["more"]["cpu_to_ready_s"] = stretch.cpu_before_s - (cpu if runner == LOCAL else 0.0)
        exact = {"cpu_s": stretch.cpu_s, "cpu_of": [MAIN if runner == LOCAL else WORKER]}
        return {**measured, **exact, "start": stretch.start, "end": stretch.end}
    return {**measured, "cpu_s": used, "cpu_of": [MAIN], "start": start, "end": end}


def _more(outcome: JobOutcome) -> dict[str, Any]:
    status = outcome.status
    restored = status.restored
    return {
        "commits": status.commits,
        "restored_records": sum(store.records for store in restored),
        "restored_s": max((store.seconds for store in restored), default=0.0),
        "restored_from": sorted({store.source for store in restored}),
    }


if __name__ == "__main__":
    sys.exit(main())
