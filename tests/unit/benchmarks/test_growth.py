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
    points = to_json(
        {
            "10000": [measured(1.0), measured(3.0), measured(2.0)],
            "Kafka Streams 10000": [measured(8.0)],
            "10000000": [measured(4.0)],
        }
    )
    content = {"keys": {"points": points}, "uptime": {"points": [item.to_json() for item in samples(1, 2)]}}

    text = markdown(content)
    plot(content, tmp_path / "growth.svg")

    assert "| keys | 10 k | 10 M |" in text
    assert "| CPU-s per million messages | 2.00 | 4.00 |" in text
    assert "| CPU-s per million, Kafka Streams | 8.00 |  |" in text
    assert "| peak memory, MiB | 64 | 64 |" in text
    assert "- lag, messages: at most 1" in text
    assert (tmp_path / "growth.svg").stat().st_size > 0


def test_growth_over_time_leaves_the_warm_up_out():
    assert growth(samples(1, 2, *[100] * 4, *[110] * 4), "rss") == pytest.approx(1.1)
    assert growth(samples(*[100] * 10), "rss") == 1.0


def test_every_curve_has_a_title_a_unit_and_its_points_among_its_variants():
    for name, curve in CURVES.items():
        assert curve.name == name
        assert "" not in {curve.title, curve.unit}
        assert set(curve.points) <= set(curve.variants_up_to(10**9))
