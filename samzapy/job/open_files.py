"""Raises the limit of open files of a process that holds many: a container its stores, a driver its connections."""

from __future__ import annotations

import resource

#: The highest limit to set, even if the system grants more: some programs iterate over all possible descriptors.
MOST = 1_048_576


def raise_limit(most: int) -> int | None:
    """Raise the soft limit to `most`, or to the hard limit if that is lower.

    Returns the new limit; None for no limit. A limit that the system does not let us raise stays unchanged.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
