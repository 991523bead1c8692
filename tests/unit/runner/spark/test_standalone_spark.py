"""`samzapy spark` without a Spark that starts."""

from types import SimpleNamespace

import psutil
import pytest

from samzapy.devkafka.broker import free_port
from samzapy.java import InstalledSpark
from samzapy.runner.spark import standalone
from samzapy.runner.spark.standalone import StandaloneSpark


def test_an_interrupted_start_leaves_no_process_behind(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    before = psutil.Process().children()
    launcher = tmp_path / "bin" / "spark-class"
    launcher.parent.mkdir()
    launcher.write_text("#!/bin/sh\nexec sleep 1000\n")
    launcher.chmod(0o700)
    monkeypatch.setattr(standalone, "installed_spark", lambda: InstalledSpark(tmp_path))
    monkeypatch.setattr(standalone, "time", SimpleNamespace(sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        StandaloneSpark(tmp_path).start(1, 1, free_port())
    started = [item for item in psutil.Process().children() if item not in before]
    assert psutil.wait_procs(started, timeout=10)[1] == []
