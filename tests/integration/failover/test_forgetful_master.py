"""A standalone master that restarts without its state."""

import pytest
from standalone_cluster import StandaloneCluster
from test_several_hosts import Scene

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_master_that_restarts_without_its_state_ends_the_run_with_code_3(tmp_path, kafka):
    cluster = StandaloneCluster(tmp_path / "cluster", ["127.0.0.2"])
    try:
        scene = Scene(cluster, tmp_path, kafka)
        scene.write()
        run = scene.start()
        try:
            run.until_status(scene.at_end(), 120.0)
            cluster.restart_master()
            assert run.wait(200.0) == 3, run.errors
        finally:
            run.close()
        assert "leaves the application without executors: its workers are gone" in run.errors.splitlines()[-1]
        # The next start registers with the new master.
        scene.run()
        scene.check()
    finally:
        cluster.close()


def test_a_worker_that_cannot_start_executors_is_named_with_its_cause(tmp_path, kafka):
    cluster = StandaloneCluster(tmp_path / "cluster", ["127.0.0.2"])
    try:
        scene = Scene(
            cluster, tmp_path, kafka, **{"job.spark.conf.spark.executor.extraJavaOptions": "-javaagent:/nope.jar"}
        )
        scene.write()
        run = scene.start()
        try:
            assert run.wait(200.0) == 3, run.errors
        finally:
            run.close()
        assert "the last executor exited (Command exited with code 1)" in run.errors.splitlines()[-1]
        assert "INFO" not in run.errors
    finally:
        cluster.close()
