"""What a start of a job imports: as much as any job needs, and nothing that only some jobs do."""

import json
import re
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
NOT_NEEDED = re.compile(
    r"(asyncio|attrs|confluent_kafka|datasketches|numpy|opentelemetry|pandas|polars|prometheus_client"
    r"|psycopg|pyarrow|pydantic|pyspark|rocksdict|sqlalchemy|sqlite3|starlette|uvicorn"
    r"|samzapy\.(bench|dataframe|devkafka|examples|operators|storage\.rocksdb|storage\.views\.cube"
    r"|storage\.views\.heap|storage\.views\.inverted_index|storage\.views\.sketches"
    r"|system\.database\.reader|system\.kafka|system\.local|testing|verify))(\..*)?"
)


def test_a_start_imports_nothing_that_only_some_jobs_need():
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    imported = json.loads(run.stdout)
    assert [name for name in imported if NOT_NEEDED.fullmatch(name)] == []
