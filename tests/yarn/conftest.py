"""What the tests on YARN share: one cluster, and one packed environment."""

import pytest
from click.testing import CliRunner
from yarn_cluster import YarnCluster
from yarn_job import HERE, THERE

from samzapy.cli.main import cli


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A YARN of this test run; it ends with the run."""
    made = YarnCluster(tmp_path_factory.mktemp("yarn"))
    try:
        made.start([HERE, THERE])
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """What `samzapy pack` makes of this environment."""
    archive = tmp_path_factory.mktemp("packed") / "env.tar.gz"
    packed = CliRunner().invoke(cli, ["pack", str(archive)], catch_exceptions=False)
    assert packed.exit_code == 0, packed.stderr
    return archive
