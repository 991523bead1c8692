from __future__ import annotations

import pytest

from benchmarks.reporting.results import Spread, ratios
from benchmarks.reporting.targets import targets
from benchmarks.suite import WORKLOADS
from samzapy.bench.measuring import Measurement

_MIB = 1024 * 1024


def measured(cpu_s, messages_per_s=1_000_000.0, mib=100, **more):
    return Measurement(
        messages=1_000_000,
        seconds=1_000_000 / messages_per_s,
        cpu_s=cpu_s,
        cpu_whole_s=cpu_s,
        peak_rss={"main": mib * _MIB, "tree": mib * _MIB},
        more=more,
    )


KEYED_COUNT = {
    "keyed-count": {
        "bare": [measured(2.0), measured(4.0), measured(2.0)],
        "bare.memory": [measured(1.0), measured(1.0), measured(1.0)],
        "local": [measured(3.0), measured(4.0), measured(3.0, mib=400)],
        "local.exactly-once": [measured(3.0), measured(6.0), measured(3.0)],
    }
}


def test_a_ratio_is_of_repeats_that_were_taken_one_after_the_other():
    found = ratios(KEYED_COUNT)
    assert found["keyed-count.cpu"] == Spread(1.0, 1.5, 1.5)
    assert found["keyed-count/bare.memory.cpu"] == Spread(3.0, 3.0, 4.0)
    assert found["keyed-count.exactly-once/local.cpu"] == Spread(1.0, 1.0, 1.5)
    assert found["keyed-count.throughput"] == Spread(1.0, 1.0, 1.0)


def test_every_variant_is_compared_with_one_that_exists():
    for workload in WORKLOADS.values():
        for variant in workload.variants:
            for comparison in workload.comparisons(variant):
                assert comparison.baseline in workload.variants, (workload.name, variant)
                assert comparison.baseline != variant


def test_no_two_ratios_have_one_name():
    names = [
        comparison.name
        for workload in WORKLOADS.values()
        for variant in workload.variants
        for comparison in workload.comparisons(variant)
    ]
    assert len(names) == len(set(names))


def test_targets_are_of_medians_and_of_the_most_memory():
    found = {each.name: each for each in targets(KEYED_COUNT)}
    assert found["keyed-count.cpu"].found == pytest.approx(1.5)
    assert not found["keyed-count.cpu"].reached
    assert found["keyed-count.exactly-once/local.cpu"].reached
    assert found["keyed-count.local.memory_mib"].found == 400
    assert not found["keyed-count.local.memory_mib"].reached
    assert found["keyed-count.local.exactly-once.memory_mib"].reached
