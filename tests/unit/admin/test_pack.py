"""`samzapy pack`: which packages go into the archive, and that its Python imports them."""

import subprocess

import pytest
from packaging.requirements import Requirement

from samzapy.admin.pack import Requested, closure, default_interpreter, pack, read_requirements
from samzapy.errors import ConfigError, EnvironmentFailure


def wanted(*texts):
    return [Requested(Requirement(text), "asked") for text in texts]


class Site:
    """A folder of installed packages, each with a module of its name."""

    def __init__(self, folder):
        self.folder = folder

    def install(self, name, version="1.0", requires=(), files=(), direct_url=None):
        info = self.folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (self.folder / name).mkdir()
        (self.folder / name / "__init__.py").write_text(f"NAME = {name!r}\n")
        lines = "".join(f"Requires-Dist: {text}\n" for text in requires)
        extras = "".join(f"Provides-Extra: {extra}\n" for extra in ("fast", "slow"))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}{lines}")
        if direct_url is not None:
            (info / "direct_url.json").write_text(direct_url)
        own = [f"{name}/__init__.py", f"{name}/gone.py", f"../../../bin/{name}", *files]
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in [*own, f"{info.name}/METADATA"]))
        return info


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(str(folder))
    return Site(folder)


def test_a_package_brings_what_it_requires_under_any_spelling_but_not_what_spark_has(site):
    site.install("app_one", requires=["Lib.Two>=2", "pyspark>=3", "py4j", "gone; python_version < '3'"])
    site.install("lib_two", "2.1", requires=["app-one"])
    assert list(closure(wanted("App.One"))) == ["app-one", "lib-two"]


@pytest.mark.parametrize("user", ["hunter2", "me:hunter2", "x-access-token:hunter2@"])
def test_the_token_of_a_repository_is_not_shown(tmp_path, user):
    file = tmp_path / "requirements.txt"
    file.write_text(f"not_here_at_all @ git+https://{user}@host/x@v1\n")
    with pytest.raises(ConfigError, match="is not installed here") as missing:
        closure(read_requirements(file))
    file.write_text(f"-e git+https://{user}@host/x#egg=x\n")
    with pytest.raises(ConfigError, match="expected a package") as refused:
        read_requirements(file)
    assert "hunter2" not in f"{missing.value} {refused.value}"


def test_everything_that_cannot_be_packed_is_named_together(site):
    site.install("old", "1.0")
    site.install("linked", direct_url='{"dir_info": {"editable": true}, "url": "file:///here"}')
    (site.install("listless") / "RECORD").unlink()
    site.install("needy", requires=["absent"])
    with pytest.raises(ConfigError) as refused:
        closure(wanted("old>=2", "linked", "listless", "needy"))
    then = "here: pip install it first, since the executors get what the driver has"
    files = "is not installed as a list of files (editable, or not by pip)"
    assert str(refused.value).splitlines() == [
        f"asked: is installed in version 1.0 {then}, got 'old>=2'",
        f"asked: {files} {then}, got 'linked'",
        f"asked: {files} {then}, got 'listless'",
        f"needy: is not installed {then}, got 'absent'",
    ]


def test_requirements_are_read_as_pip_reads_them(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("base>=1  # why\n")
    path = tmp_path / "requirements.txt"
    path.write_text(
        "# all\n--index-url https://x\n\nfirst==1 \\\n  --hash=sha256:00\n-r more/base.txt\nlast; python_version>'3'\n"
    )
    found = read_requirements(path)
    assert [each.requirement.name for each in found] == ["first", "base", "last"]
    assert [each.where for each in found] == [f"{path}:4", f"{tmp_path}/more/base.txt:1", f"{path}:7"]


def test_lines_that_are_no_requirements_are_named_together(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("-e .\nfine\n./wheel.whl\n")
    with pytest.raises(ConfigError) as refused:
        read_requirements(path)
    assert [line.split(": ")[0] for line in str(refused.value).splitlines()] == [f"{path}:1", f"{path}:3"]
    with pytest.raises(ConfigError, match=r"-r: cannot be read .*gone\.txt"):
        read_requirements(tmp_path / "gone.txt")


def test_an_archive_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("samzapy.admin.pack.closure", lambda wanted: {})
    with pytest.raises(EnvironmentFailure, match="cannot be written"):
        pack(tmp_path / "gone" / "env.tar.gz")
    (tmp_path / "env.tar.gz").mkdir()
    with pytest.raises(EnvironmentFailure, match="cannot be written"):
        pack(tmp_path / "env.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["env.tar.gz"]


def test_the_unpacked_python_has_the_packages_and_nothing_else_of_this_environment(site, tmp_path, monkeypatch):
    monkeypatch.setattr("samzapy.admin.pack._OWN", "toy")
    site.install("toy", requires=["part"])
    site.install("part", "3.0")
    (tmp_path / "needs.txt").write_text("part\n")
    packed = pack(tmp_path / "env.tgz", tmp_path / "needs.txt")
    assert packed.versions == {"part": "3.0", "toy": "1.0"}
    assert packed.size == (tmp_path / "env.tgz").stat().st_size
    # As Spark does.
    subprocess.run(["tar", "-xzf", "env.tgz", "--one-top-level=env"], cwd=tmp_path, check=True)
    code = (
        "import sys, toy, part, importlib.util as u\n"
        "print(toy.NAME, part.NAME, u.find_spec('pytest'), u.find_spec('pyspark'), sys.prefix)"
    )
    command = ["./env/bin/python", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert done.stdout == f"toy part None None {tmp_path / 'env'}\n"
    assert default_interpreter().exists()
