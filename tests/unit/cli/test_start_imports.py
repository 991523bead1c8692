"""What a start of a job imports: as much as any job needs, and nothing that only some jobs do."""

import json
import subprocess
import sys

#: The modules that `samzapy run --runner local` imports before it reads a job file.
IMPORTS = """
import json, sys
import samzapy.cli.main, samzapy.cli.commands.run
import samzapy.admin.user_code, samzapy.config.loader
import samzapy.runner.base, samzapy.runner.local, samzapy.runner.prepare
print(json.dumps(sorted(sys.modules)))
"""
#: Of these, and of what is in them.
NOT_NEEDED = (
    "asyncio",
    "attrs",
    "confluent_kafka",
    "datasketches",
    "starlette",
    "uvicorn",
    "numpy",
    "opentelemetry",
    "pandas",
    "polars",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rocksdict",
    "samzapy.bench",
    "samzapy.dataframe",
    "samzapy.devkafka",
    "samzapy.examples",
    "samzapy.operators",
    "samzapy.storage.rocksdb",
    "samzapy.storage.views.cube",
    "samzapy.storage.views.heap",
    "samzapy.storage.views.inverted_index",
    "samzapy.storage.views.sketches",
    "samzapy.system.database.reader",
    "samzapy.system.kafka",
    "samzapy.system.local",
    "samzapy.testing",
    "samzapy.verify",
    "sqlalchemy",
    "sqlite3",
    "starlette",
    "uvicorn",
)


def test_a_start_imports_nothing_that_only_some_jobs_need():
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    imported = json.loads(run.stdout)
    assert [name for name in imported if any(name == each or name.startswith(f"{each}.") for each in NOT_NEEDED)] == []
