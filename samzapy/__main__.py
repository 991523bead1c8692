"""`python -m samzapy`: runs the command. A Ctrl-C during its import ends the process quietly."""

from __future__ import annotations

import sys
from typing import NoReturn

#: The exit code that a shell reports of a process that SIGINT ended.
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        from samzapy.cli.main import main as run  # noqa: PLC0415  # an import takes a while, and may be interrupted
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
