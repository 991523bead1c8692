"""The driver of the job when the Spark operator starts it: its Spark is that of spark-submit."""

from __future__ import annotations

import os

import samzapy

if __name__ == "__main__":
    samzapy.run("/opt/job/page-views.properties", job_spark_coordinator_host=os.environ["POD_IP"])
