"""The embedded system, whose first commit in a worker kills the worker: `systems.NAME.flag` names a file that tells."""

import os
import signal
from pathlib import Path

from samzapy.system.local import LocalSystemFactory


class KilledAtCommit(LocalSystemFactory):
    """`systems.NAME.driver` is the process that is spared."""

    def producer(self, settings, client_id, transactional_id=None, timeout_ms=60_000):
        made = super().producer(settings, client_id, transactional_id, timeout_ms)
        flag, commit = Path(settings.properties["flag"]), made.commit

        def once():
            if os.getpid() != int(settings.properties["driver"]) and not flag.exists():
                made.flush()
                flag.parent.exists() and flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            commit()

        made.commit = once
        return made
