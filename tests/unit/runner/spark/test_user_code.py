"""The user's code on its way to the executors, without a Spark."""

import pickle
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from samzapy import StreamTask
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.plugins import path_of
from samzapy.runner.spark.user_code import arrive, pickled_code, shipped_files

ROOT = Path(__file__).parents[4]
JOB = {
    "job.name": "code",
    "task.class": "tasks:Task",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
}


@pytest.fixture
def folder(tmp_path):
    """A job file with modules beside, and what is no code of the job."""
    made = tmp_path / "job"
    for path in ("tasks.py", "pack/__init__.py", "pack/deep/inner.py", ".venv/__init__.py", "data/notes.txt"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(f"NAME = {path!r}\n")
    (made / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in JOB.items()))
    return made


def test_modules_and_packages_next_to_the_job_file_are_shipped(folder, tmp_path):
    (archive,) = shipped_files(load_job(folder / "job.properties"), tmp_path)
    names = sorted(zipfile.ZipFile(archive).namelist())
    assert names == ["pack/", "pack/__init__.py", "pack/deep/", "pack/deep/inner.py", "tasks.py"]
    command = f"import sys; sys.path = [{archive!r}]; import pack.deep.inner, tasks"
    assert subprocess.run([sys.executable, "-S", "-c", command], check=False).returncode == 0


def test_modules_that_were_imported_from_an_archive_beside_the_job_file_are_no_files_to_ship(
    folder, tmp_path, monkeypatch
):
    """YARN's cluster mode puts Spark's own `pyspark.zip` there."""
    with zipfile.ZipFile(folder / "sparks.zip", "w") as archive:
        archive.writestr("in_an_archive.py", "")
    monkeypatch.syspath_prepend(folder / "sparks.zip")
    monkeypatch.setitem(sys.modules, "in_an_archive", import_module("in_an_archive"))
    (shipped,) = shipped_files(load_job(folder / "job.properties"), tmp_path)
    assert not [name for name in zipfile.ZipFile(shipped).namelist() if "in_an_archive" in name]


def test_an_archive_has_the_name_of_its_contents(folder, tmp_path):
    job = load_job(folder / "job.properties")
    first = shipped_files(job, tmp_path)
    assert shipped_files(job, tmp_path) == first
    (folder / "tasks.py").write_text("changed = 1\n")
    assert shipped_files(job, tmp_path) != first


def test_what_the_job_names_is_shipped_instead(folder, tmp_path):
    job = load_job(folder / "job.properties")
    named = replace(job, spark=replace(job.spark, py_files=("a.zip",)))
    assert shipped_files(named, tmp_path) == ("a.zip",)
    assert not pickled_code(job)


def test_hidden_files_and_folders_with_the_name_of_a_module_are_not_shipped(folder, tmp_path):
    """Emacs links `.#tasks.py` to nothing while the text of `tasks.py` is not saved."""
    (folder / ".#tasks.py").symlink_to("nothing@host.1")
    (folder / "pack" / ".#inner.py").symlink_to("nothing@host.1")
    (folder / "folder.py").mkdir()
    (archive,) = shipped_files(load_job(folder / "job.properties"), tmp_path)
    names = [name for name in zipfile.ZipFile(archive).namelist() if not name.endswith("/")]
    assert names == ["pack/__init__.py", "pack/deep/inner.py", "tasks.py"]


def test_the_archive_comes_last_on_the_import_path_of_a_worker(monkeypatch):
    monkeypatch.setattr(sys, "path", ["./samzapy-code-5f0c.zip", "/lib/python", "/site-packages"])
    arrive(b"")
    assert sys.path == ["/lib/python", "/site-packages", str(Path("samzapy-code-5f0c.zip").absolute())]


class Visit(msgspec.Struct):
    user: str


def job_of(task):
    return load_job({**JOB, "task.class": path_of(task)})


def test_a_class_of_a_function_travels_by_value_with_its_path(tmp_path):
    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return 7

    job = job_of(Task)
    code = tmp_path / "code"
    code.write_bytes(pickled_code(job))
    program = (
        f"from samzapy.runner.spark.user_code import arrive; arrive(open({str(code)!r}, 'rb').read())\n"
        f"from samzapy.plugins import load_class; found = load_class({job.task.task_class!r})\n"
        "print(found.__name__, found().process(None, None, None))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "Task 7\n", done.stderr


def test_a_dataclass_that_was_decoded_before_travels():
    @dataclass
    class Local:
        user: str

    msgspec.json.decode(b'{"user": "u"}', type=Local)

    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return Local("u")

    assert pickled_code(job_of(Task))


def test_code_that_does_not_arrive_is_refused_with_what_to_do():
    class Evil:
        def __reduce__(self):
            return int, ("seven",)

    code = pickle.dumps({"__main__:Task": Evil()})
    with pytest.raises(ConfigError) as refused:
        arrive(code)
    assert str(refused.value) == (
        "task.class: an executor's Python cannot read the code of the program (ValueError: invalid literal for int() "
        "with base "
        "10: 'seven'): put it, and what it uses, into a module beside the job file, and install what it imports there"
    )


def test_a_struct_of_a_function_is_refused_with_what_to_do():
    class Local(msgspec.Struct):
        other: int

    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return Local(1)

    expected = r"cannot be pickled for the executors \(TypeError: Local is a msgspec.Struct\): put it"
    with pytest.raises(ConfigError, match=expected):
        pickled_code(job_of(Task))


def test_what_cannot_be_pickled_is_refused_with_what_to_do():
    lock = threading.Lock()

    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return lock

    with pytest.raises(ConfigError, match=r"cannot be pickled for the executors .*: put it, and what it uses"):
        pickled_code(job_of(Task))
