"""Looks up the features of a shopper, as a model would, while the job of shopper-features.properties runs here.

python look_up.py shopper-007
"""

import sys
from pathlib import Path
from typing import Any

import samzapy

JOB = Path(__file__).with_name("shopper-features.properties")


def features_of(shopper: str, address: str | None = None) -> Any:
    """The committed features, None for an unknown shopper. `address`: as printed by a run on another machine."""
    with samzapy.query(JOB, address) as job:
        return job.store("features").get(shopper)


if __name__ == "__main__":
    print(features_of(sys.argv[1]))
