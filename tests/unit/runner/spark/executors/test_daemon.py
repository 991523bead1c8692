"""The daemon of the executors' Python workers, in a process of its own as Spark starts it."""

import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.runner.spark import daemon


def test_what_is_imported_before_the_fork_starts_no_thread_and_prints_nothing():
    # As Spark sets it for its workers.
    script = (
        "import sys\nfrom samzapy.runner.spark import daemon\n"
        "daemon.preload()\n"
        "missing = [name for name in daemon.PRELOADED if name not in sys.modules]\n"
        "sys.exit(0 if daemon.may_fork() and not missing else f'{missing}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_current_folder_of_an_executor_has_no_module_of_the_daemon(tmp_path):
    (tmp_path / "msgspec.py").write_text("open('imported', 'w').close()\n")
    done = subprocess.run(
        [sys.executable, "-m", daemon.__name__, "pyspark.worker"],
        env={"PYTHONPATH": str(Path(daemon.__file__).parents[3])},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert len(done.stdout) == 4, f"no port: {done.stderr}"
    assert [path.name for path in tmp_path.iterdir()] == ["msgspec.py"]


def test_with_a_second_thread_sparks_own_daemon_takes_over(monkeypatch):
    replaced = []

    def replace(path, words):
        replaced.append(words)
        raise SystemExit

    monkeypatch.setattr(daemon, "preload", lambda: None)
    monkeypatch.setattr(daemon, "may_fork", lambda: False)
    monkeypatch.setattr(daemon.os, "execv", replace)
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    with pytest.raises(SystemExit):
        daemon.main()
    assert replaced == [[sys.executable, "-m", "pyspark.daemon", "pyspark.worker"]]
