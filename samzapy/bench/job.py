"""Measures one job in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from samzapy.bench.child import LOCAL
from samzapy.bench.marks import MARKS_KEY
from samzapy.bench.measuring import Measurement, measure


def measure_job(
    job: Path | str,
    overrides: Mapping[str, str] | None = None,
    runner: str = LOCAL,
    *,
    endless: bool = False,
    marks: Path | None = None,
    timeout_s: float = 600.0,
) -> Measurement:
    """Run the job over its inputs as they are now, with the `local` or the `spark` runner, and measure it.

    `endless`: until its tasks stop it. `marks`: the file its tasks leave their marks in (default: a temporary one); it
    comes into being when the first task is ready. Raises MeasurementFailed.
    """
    with tempfile.TemporaryDirectory(prefix="samzapy-bench-") as folder:
        config = {**(overrides or {}), MARKS_KEY: str(marks or Path(folder) / "marks")}
        command = ["-m", "samzapy.bench.child", str(job), "--runner", runner]
        command += [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
        command += ["--endless"] if endless else []
        return measure(command, timeout_s)
