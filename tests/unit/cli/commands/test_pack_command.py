"""`samzapy pack`; what goes into the archive is in test_pack.py."""

from samzapy.admin import pack


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
