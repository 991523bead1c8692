"""What the tests on YARN share: one cluster, whole again before each test, and one packed environment."""

import pytest
from click.testing import CliRunner
from yarn_cluster import YarnCluster
from yarn_job import HERE, THERE

from samzapy.cli.main import cli


@pytest.fixture(scope="session")
def yarn(tmp_path_factory):
    """A YARN of this test run; it ends with the run."""
    made = YarnCluster(tmp_path_factory.mktemp("yarn"), [HERE, THERE])
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def cluster(yarn):
    """The YARN with all its hosts and nothing on them, whatever the test before has done to it."""
    yarn.make_whole()
    return yarn


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """What `samzapy pack` makes of this environment."""
    archive = tmp_path_factory.mktemp("packed") / "env.tar.gz"
    packed = CliRunner().invoke(cli, ["pack", str(archive)], catch_exceptions=False)
    assert packed.exit_code == 0, packed.stderr
    return archive
