"""Jobs from Python programs on Spark: a session, `spark-submit`, a notebook, and modules beside the job file."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job

from samzapy.cli.main import cli

#: Seconds for a program with three runs. A session alone may take minutes to start on a machine that is busy with other
#: versions.
LONGEST_S = 400
pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S + 20)]

ROOT = Path(__file__).parents[3]
PAGES = ["/a", "/b", "/a", "/c"]

#: The module beside the program, with the class of the messages.
BESIDE = """
import msgspec
LIMIT = 7

class View(msgspec.Struct):
    user: str
"""
#: The task in the program itself.
TASK = """
import limit_beside
import samzapy

class Task(samzapy.StreamTask):
    def process(self, envelope: samzapy.IncomingMessageEnvelope[str, limit_beside.View], collector, coordinator):
        assert envelope.message == limit_beside.View("u"), envelope
        view = {"page": envelope.key, "limit": limit_beside.LIMIT}
        collector.send_message(samzapy.SystemStream("local", "out"), view, "k")
"""
SESSION = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
before = (dict(spark.sparkContext.getConf().getAll()), dict(spark.sparkContext.environment))
"""
RUN = """
outcome = samzapy.run("job.properties", Task, spark=spark, until_end=True, progress=False)
print(outcome.status.processed)
assert (dict(spark.sparkContext.getConf().getAll()), dict(spark.sparkContext.environment)) == before
"""
SUBMIT = """
with samzapy.submit("job.properties", Task, spark=spark) as running:
    pass
print(running.wait().stopped)
"""
GOES_ON = """
print(spark.range(10).count(), spark.sparkContext.parallelize([1, 2]).sum())
spark.stop()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a job file, its streams, and a module beside."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.properties").write_text(page_view_job("views", output="local.out"))
    (tmp_path / "limit_beside.py").write_text(BESIDE)
    text = "".join(f'{page}\t{{"user": "u"}}\n' for page in PAGES)
    for arguments in (
        ("topic", "create", "local.views", "--partitions", "2"),
        ("topic", "create", "local.out", "--partitions", "2"),
        ("topic", "write", "local.views"),
    ):
        done = CliRunner().invoke(cli, [*arguments, "--job", "job.properties"], input=text)
        assert done.exit_code == 0, done.output
    return tmp_path


def call(*command, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outputs(folder):
    done = CliRunner().invoke(cli, ["topic", "read", "local.out", "--job", str(folder / "job.properties")])
    return sorted(json.loads(line)["message"]["page"] for line in done.stdout.splitlines())


@pytest.mark.slow
def test_a_session_runs_jobs_of_its_programs_classes_and_goes_on_as_it_was(place):
    (place / "program.py").write_text(TASK + SESSION + RUN + RUN + SUBMIT + GOES_ON)
    assert call(sys.executable, "program.py", folder=place).splitlines() == ["4", "0", "True", "10 3"]
    assert outputs(place) == sorted(PAGES)


@pytest.mark.slow
def test_a_script_of_two_lines_runs_under_spark_submit(place):
    (place / "program.py").write_text('import samzapy\nsamzapy.run("job.properties", until_end=True)\n')
    submit = str(Path(find_spec("pyspark").submodule_search_locations[0]) / "bin" / "spark-submit")
    call(submit, "--master", "local[2]", "program.py", folder=place)
    done = CliRunner().invoke(cli, ["store", "scan", "job.properties", "counts"])
    assert all(page in done.stdout for page in set(PAGES))


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]"])
def test_modules_beside_the_job_file_and_no_others_reach_the_executors(place, master):
    code = "import samzapy" + TASK.partition("import samzapy")[2]
    (place / "task_beside.py").write_text(TASK.partition("import samzapy")[0] + code)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "task_beside.py").write_text(
        f"{code}        raise AssertionError('the module of the current folder')\n"
    )
    (elsewhere / "limit_beside.py").write_text("LIMIT = 0\n")
    (elsewhere / "orjson.py").write_text("raise AssertionError('a library of the current folder')\n")
    # As the console script: `python -m samzapy` would import from the current folder itself.
    script = place / "bin" / "samzapy"
    script.parent.mkdir()
    script.write_text("from samzapy.__main__ import main\nmain()\n")
    call(
        *(sys.executable, script, "run", "../job.properties", "--until-end", "--master", master),
        *("-c", "task.class=task_beside:Task", "-c", f"systems.local.path={place}/.samzapy/local.db"),
        folder=elsewhere,
    )
    assert outputs(place) == sorted(PAGES)


@pytest.mark.slow
def test_a_notebook_runs_a_job_with_a_class_of_a_cell(place, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="comes with the extra dev")
    nbformat = pytest.importorskip("nbformat", reason="comes with nbclient")
    cells = [
        TASK.replace("from __future__ import annotations\n", ""),
        'outcome = samzapy.run("job.properties", Task, until_end=True)\noutcome.status.processed',
        'with samzapy.submit("job.properties", Task, runner="local") as running:\n    pass\nrunning.wait().stopped',
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    nbclient.NotebookClient(
        notebook, kernel_name="python3", timeout=LONGEST_S, resources={"metadata": {"path": str(place)}}
    ).execute()
    shown = [cell.outputs[-1]["data"]["text/plain"] for cell in notebook.cells[1:]]
    assert shown == ["4", "True"]
    assert outputs(place) == sorted(PAGES)


@pytest.mark.slow
def test_code_that_an_executor_cannot_read_ends_the_job_at_once(place):
    program = (
        "import samzapy\n"
        "class Unread:\n    def __reduce__(self):\n        return int, ('seven',)\n"
        "unread = Unread()\n"
        "class Task(samzapy.StreamTask):\n"
        "    def process(self, envelope, collector, coordinator):\n        print(unread)\n"
        "try:\n    samzapy.run('job.properties', Task, until_end=True, progress=False)\n"
        "except samzapy.errors.JobFailed as failed:\n    print(failed.exit_code, failed)\n"
    )
    (place / "program.py").write_text(program)
    (line,) = call(sys.executable, "program.py", folder=place).splitlines()
    assert line.startswith("2 container ")
    assert "an executor's Python cannot read the code of the program (ValueError: invalid literal for int()" in line
