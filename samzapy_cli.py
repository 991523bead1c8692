"""The console script `samzapy`: ends quietly when Ctrl-C comes while the package itself is imported.

It stands beside the package because Python imports `samzapy/__init__.py` before any module inside: an interrupt in there
can be caught from outside only.
"""

from __future__ import annotations

import sys
from typing import NoReturn

#: The exit code that a shell reports of a process that SIGINT ended.
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        from samzapy.__main__ import main as run  # noqa: PLC0415  # the import takes a while, and may be interrupted
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()
