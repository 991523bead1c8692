"""Uses an archive of classes for the JVMs of a run, and has a missing one recorded in the background.

Recording takes a JVM of its own, because a JVM writes an archive at its end: a job would end seconds later, and one that is
killed would write none. The program (`samzapy.runner.spark.jvm.recorder`) has the lowest priority, and goes on after the run.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

from samzapy.java import ClassArchive

logger = logging.getLogger(__name__)

_RECORDER = "samzapy.runner.spark.jvm.recorder"
#: The folder that samzapy is imported from.
_ROOT = Path(__file__).parents[4]
#: The variables of the run that a recording keeps; samzapy's other variables concern the run.
_OURS, _KEPT = "SAMZAPY_", "SAMZAPY_CACHE"


def archive_options(archive: ClassArchive | None) -> str:
    """The options of a JVM that uses the archive; none as long as there is none."""
    if archive is None or not archive.is_recorded:
        return ""
    archive.used()
    # Check sums: a JVM that maps damaged classes would crash. Java 19 and newer say on standard output why they go without an archive.
    return (
        f"-XX:SharedArchiveFile={archive.file} -Xshare:auto -XX:+VerifySharedSpaces -Xlog:cds=off -Xlog:cds+dynamic=off"
    )


def record_beside(archive: ClassArchive) -> None:
    """Start the recording of an archive, unless earlier ones have failed too often. Does not wait."""
    if archive.is_hopeless:
        return
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) or name == _KEPT}
    # The folder of the run may disappear, and samzapy may have been imported from there.
    variables["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [variables.get("PYTHONPATH")])])
    nothing = subprocess.DEVNULL
    try:
        # The shell ends at once, so the program is not a child of this process: the run does not wait for it, and does
        # not end it.
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", sys.executable, "-m", _RECORDER],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            env=variables,
            cwd="/",
            start_new_session=True,
            check=False,
        )
    except OSError as cause:
        logger.info("Spark's classes are not recorded: %s", cause)
