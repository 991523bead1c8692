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
from samzapy.runner.spark.user_code import TravellingCode, shipped_files

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
    assert TravellingCode.of(job) == TravellingCode()


def test_hidden_files_and_folders_with_the_name_of_a_module_are_not_shipped(folder, tmp_path):
    """Emacs links `.#tasks.py` to nothing while the text of `tasks.py` is not saved."""
    (folder / ".#tasks.py").symlink_to("nothing@host.1")
    (folder / "pack" / ".#inner.py").symlink_to("nothing@host.1")
    (folder / "folder.py").mkdir()
    (archive,) = shipped_files(load_job(folder / "job.properties"), tmp_path)
    names = [name for name in zipfile.ZipFile(archive).namelist() if not name.endswith("/")]
    assert names == ["pack/__init__.py", "pack/deep/inner.py", "tasks.py"]


def test_a_module_that_cannot_be_read_is_named_and_spark_is_not(folder, tmp_path, monkeypatch):
    def unreadable(path):
        raise PermissionError(13, "Permission denied", str(path))

    job = load_job(folder / "job.properties")
    monkeypatch.setattr(Path, "read_bytes", unreadable)
    with pytest.raises(ConfigError) as refused:
        shipped_files(job, tmp_path)
    assert str(refused.value) == (
        "job.spark.py.files: the modules beside the job file cannot be read ([Errno 13] Permission denied: "
        f"'{folder}/pack/__init__.py'): name the files that the job needs"
    )


def test_an_archive_that_is_there_stays_as_it_is_for_executors_that_read_it(folder, tmp_path):
    job, scratch = load_job(folder / "job.properties"), tmp_path / "scratch"
    scratch.mkdir()
    (archive,) = shipped_files(job, scratch)
    before = Path(archive).stat()
    assert shipped_files(job, scratch) == (archive,)
    after = Path(archive).stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert list(scratch.iterdir()) == [Path(archive)], "no part is left"


def test_the_archive_comes_last_on_the_import_path_of_a_worker(monkeypatch):
    monkeypatch.setattr(sys, "path", ["./samzapy-code-5f0c.zip", "/lib/python", "/site-packages"])
    TravellingCode().arrive()
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
    code.write_bytes(pickle.dumps(TravellingCode.of(job)))
    program = (
        f"import pickle; pickle.load(open({str(code)!r}, 'rb')).arrive()\n"
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

    assert TravellingCode.of(job_of(Task)).objects


#: Classes of a program that are message types, and the task that has them in its signature.
PROGRAM = """
from __future__ import annotations
import enum, pickle, sys
from dataclasses import dataclass, field
from typing import Annotated, Generic, NamedTuple, TypedDict, TypeVar
import attrs, msgspec, samzapy
from samzapy.config.loader import load_job
from samzapy.runner.spark.user_code import TravellingCode

T = TypeVar("T")
class Kind(enum.Enum):
    NEW = "new"
class Item(msgspec.Struct, tag=True, rename="camel"):
    unit_price: Annotated[int, msgspec.Meta(ge=1)]
    within: Item | None = None
    def __post_init__(self):
        assert isinstance(self, Item)
    def more(self):
        return Item(self.unit_price + LIMIT, within=self)
LIMIT = 10
@dataclass
class Owner:
    items: list[Item]
    tags: set[str] = field(default_factory=set)
class Place(NamedTuple):
    item: Item
class Extra(TypedDict):
    item: Item
@attrs.define
class Size:
    item: Item
class Box(msgspec.Struct, Generic[T]):
    held: T
class Order(msgspec.Struct, frozen=True):
    owner: Owner
    place: Place
    extra: Extra
    size: Size
    box: Box[Item]
    kind: Kind = Kind.NEW
class Task(samzapy.StreamTask):
    def process(self, envelope: samzapy.IncomingMessageEnvelope[str, Order], collector, coordinator):
        return envelope.message.box.held.more()
if __name__ == "__main__":
    job = load_job(JOB | {"task.class": "__main__:Task"})
    sys.stdout.buffer.write(pickle.dumps(TravellingCode.of(job)))
"""
ORDER = (
    '{"owner":{"items":[{"type":"Item","unitPrice":1,"within":null}],"tags":[]},'
    '"place":[{"type":"Item","unitPrice":2,"within":null}],"extra":{"item":{"type":"Item","unitPrice":3,"within":null}},'
    '"size":{"item":{"type":"Item","unitPrice":4,"within":null}},'
    '"box":{"held":{"type":"Item","unitPrice":5,"within":null}},"kind":"new"}'
)
#: What a worker does with it; it has a `__main__` of its own.
WORKER = """
import pickle, sys
from types import SimpleNamespace
import msgspec
pickle.loads(sys.stdin.buffer.read()).arrive()
from samzapy.plugins import load_class
from samzapy.serializers.streams import message_types
task = load_class("__main__:Task")
kind = message_types(task).message
order = msgspec.json.decode(TEXT, type=kind)
assert msgspec.json.encode(order).decode() == TEXT, order
made = task().process(SimpleNamespace(message=order), None, None)
print(kind.__name__, type(order.place).__name__, order.kind.name, made.unit_price, made.within is order.box.held)
try:
    msgspec.json.decode(TEXT.replace("5", "0"), type=kind)
except msgspec.ValidationError as error:
    print(error)
"""


def in_a_process(folder, program, given=b""):
    path = folder / "program.py"
    path.write_text(program)
    done = subprocess.run([sys.executable, path], input=given, capture_output=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("annotations", ["text", "objects"])
def test_message_types_of_a_program_travel_with_the_classes_of_their_fields(tmp_path, annotations):
    first, rest = PROGRAM.lstrip().split("\n", 1)
    program = f"{first}\nJOB = {JOB}\n{rest}" if annotations == "text" else f"JOB = {JOB}\n{rest}"
    if annotations == "objects":
        program = program.replace("Item | None", "'Item | None'")
    code = in_a_process(tmp_path, program)
    lines = in_a_process(tmp_path, f"TEXT = {ORDER!r}\n{WORKER}", code).decode().splitlines()
    assert lines == ["Order Place NEW 15 True", "Expected `int` >= 1 - at `$.box.held.unitPrice`"]


def test_a_class_that_is_text_in_the_brackets_of_the_task_travels_with_it(tmp_path):
    program = PROGRAM.replace("Task(samzapy.StreamTask)", "Task(samzapy.StreamTask[str, 'Order'])").replace(
        "envelope: samzapy.IncomingMessageEnvelope[str, Order]", "envelope"
    )
    code = in_a_process(tmp_path, program.replace("import annotations", f"import annotations\nJOB = {JOB}"))
    lines = in_a_process(tmp_path, f"TEXT = {ORDER!r}\n{WORKER}", code).decode().splitlines()
    assert lines == ["Order Place NEW 15 True", "Expected `int` >= 1 - at `$.box.held.unitPrice`"]


#: Python 3.12 has the statement `type` for the alias.
NAMES = """
from typing import NewType
from typing_extensions import TypeAliasType
import msgspec, samzapy
Text = NewType("Text", str)
class Seen(msgspec.Struct):
    user: Text
    by: dict[Text, int] = {}
View = NewType("View", Seen)
Views = TypeAliasType("Views", list[View])
class Task(samzapy.StreamTask[str, View]):
    def process(self, envelope, collector, coordinator):
        return View(Seen(Text("u"))), Views.__value__
"""


def test_another_name_of_a_type_travels_with_the_program(tmp_path):
    sends = (
        "import pickle, sys\nfrom samzapy.config.loader import load_job\n"
        "from samzapy.runner.spark.user_code import TravellingCode\n"
        f"job = load_job({JOB} | {{'task.class': '__main__:Task'}})\n"
        "sys.stdout.buffer.write(pickle.dumps(TravellingCode.of(job)))\n"
    )
    takes = (
        "import pickle, sys, msgspec\npickle.loads(sys.stdin.buffer.read()).arrive()\n"
        "from samzapy.plugins import load_class\nfrom samzapy.serializers.streams import message_types\n"
        "task = load_class('__main__:Task')\nmade, listed = task().process(None, None, None)\n"
        "view = message_types(task).message\nassert listed == list[view]\n"
        'assert msgspec.json.decode(b\'{"user":"u"}\', type=view) == made\nprint(view.__name__, view.__module__)\n'
    )
    code = in_a_process(tmp_path, NAMES + sends)
    assert in_a_process(tmp_path, takes, code) == b"View __main__\n"


def test_code_that_does_not_arrive_is_refused_with_what_to_do():
    class Evil:
        def __reduce__(self):
            return int, ("seven",)

    code = TravellingCode(pickle.dumps({"__main__:Task": Evil()}))
    with pytest.raises(ConfigError) as refused:
        code.arrive()
    assert str(refused.value) == (
        "task.class: an executor's Python cannot read the code of the program (ValueError: invalid literal for int() "
        "with base "
        "10: 'seven'): put it, and what it uses, into a module beside the job file, and install what it imports there"
    )


def test_a_struct_that_names_what_is_not_there_is_refused_with_what_to_do():
    class Local(msgspec.Struct):
        other: "Missing"  # noqa: F821

    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return Local(1)

    expected = r"cannot be pickled for the executors \(NameError: name 'Missing' is not defined.*\): put it"
    with pytest.raises(ConfigError, match=expected):
        TravellingCode.of(job_of(Task))


def test_a_struct_of_a_module_travels_by_its_name():
    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return Visit("u")

    assert TravellingCode.of(job_of(Task)).objects


def test_what_cannot_be_pickled_is_refused_with_what_to_do():
    lock = threading.Lock()

    class Task(StreamTask):
        def process(self, envelope, collector, coordinator):
            return lock

    with pytest.raises(ConfigError, match=r"cannot be pickled for the executors .*: put it, and what it uses"):
        TravellingCode.of(job_of(Task))
