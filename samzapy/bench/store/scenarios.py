"""Every scenario by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samzapy.bench.store.kv_perf import KV_PERF
from samzapy.bench.store.loads import LOADS
from samzapy.bench.store.maintenance import MAINTENANCE
from samzapy.bench.store.material import Material
from samzapy.bench.store.parameters import Parameters
from samzapy.bench.store.scenario import Scenario

SCENARIOS: Mapping[str, Callable[[Material, Parameters], Scenario]] = {**KV_PERF, **LOADS, **MAINTENANCE}
