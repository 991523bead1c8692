from __future__ import annotations

import pytest

from benchmarks.growth.curves import CURVES
from benchmarks.growth.report import markdown, plot, to_json
from benchmarks.growth.uptime import Sample, growth
from samzapy.bench.measuring import Measurement


def measured(cpu_s):
    return Measurement(messages=1_000_000, seconds=2.0, cpu_s=cpu_s, cpu_whole_s=cpu_s, peak_rss={"tree": 64 << 20})


def samples(*sizes):
    return [
        Sample(at=10.0 * number, rss=size << 20, threads=8, descriptors=20, cpu_s=1.0, behind=number)
        for number, size in enumerate(sizes)
    ]


def test_a_curve_is_a_table_and_a_plot_with_the_median_of_each_point(tmp_path):
    found = {"keys": {"10000": [measured(1.0), measured(3.0), measured(2.0)], "10000000": [measured(4.0)]}}

    text = markdown(found, [], {"keys 100000": "no memory"})
    plot(found, samples(1, 2), tmp_path / "growth.svg")

    assert "| keys | 10 k | 10 M |" in text
    assert "| CPU-s per million messages | 2.00 | 4.00 |" in text
    assert "| peak memory, MiB | 64 | 64 |" in text
    assert "- keys 100000: no memory" in text
    assert (tmp_path / "growth.svg").stat().st_size > 0
    assert to_json(found)["keys"]["10000"]["cpu_s_per_million"] == [1.0, 3.0, 2.0]


def test_growth_over_time_leaves_the_warm_up_out():
    assert growth(samples(1, 2, *[100] * 4, *[110] * 4), "rss") == pytest.approx(1.1)
    assert growth(samples(*[100] * 10), "rss") == 1.0
    assert growth(samples(5), "rss") == 1.0


def test_every_curve_has_a_title_a_unit_and_points_that_are_its_variants():
    for name, curve in CURVES.items():
        assert curve.name == name
        assert curve.title
        assert curve.unit
        assert curve.variants == curve.points
