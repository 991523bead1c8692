"""`samzapy pack`; what goes into the archive is in test_pack.py."""

from samzapy.admin import pack


def test_a_package_that_is_not_installed_is_named_with_its_line(samzapy, tmp_path):
    (tmp_path / "requirements.txt").write_text("absent-package>=1\n")
    code, _, errors = samzapy("pack", "env.tar.gz", "-r", "requirements.txt")
    assert (code, errors) == (
        2,
        (
            "error: requirements.txt:1: is not installed here: pip install it first, since the executors "
            "get what the driver has, "
            "got 'absent-package>=1'\n"
        ),
    )


def test_a_name_that_spark_would_not_unpack_is_refused(samzapy):
    code, _, errors = samzapy("pack", "env.zip")
    assert (code, errors) == (2, "error: archive: expected a name that ends in .tar.gz or .tgz, got 'env.zip'\n")


def test_the_output_says_what_is_packed_and_how_a_job_uses_it(samzapy, monkeypatch):
    monkeypatch.setattr(pack, "_OWN", "click")
    code, output, _ = samzapy("pack", "env.tar.gz", "--python", "/usr/bin/python3")
    assert code == 0
    first, packages, without, *rest = output.splitlines()
    assert first.startswith("env.tar.gz: ")
    assert packages.startswith("  click 8.")
    assert without == "without pyspark and py4j, on /usr/bin/python3"
    assert rest == [
        "add to the job:",
        "  job.spark.conf.spark.archives=env.tar.gz#env",
        "  job.spark.conf.spark.pyspark.python=./env/bin/python",
    ]
