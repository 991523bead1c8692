"""A Spark that is a script."""

import pytest


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes `bin/spark-submit` a script."""

    def write(script):
        path = tmp_path / "bin" / "spark-submit"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")

    return write
