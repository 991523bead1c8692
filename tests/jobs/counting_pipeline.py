"""A pipeline of two or three stages, COUNTING=name:stages:system, that dies once: FATAL=point:nth:file, where the file
says that it has."""

import os
import signal

from rigs.pipeline_rig import counting

from samzapy.failpoints import arm

name, stages, system = os.environ["COUNTING"].split(":")
pipeline = counting(name, int(stages), system)


def die(file: str) -> None:
    """End this process with SIGKILL, unless one has died before."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


if "FATAL" in os.environ:
    point, nth, file = os.environ["FATAL"].split(":", 2)
    arm(point, int(nth), lambda _: die(file))
