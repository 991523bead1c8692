from __future__ import annotations

import re

import pytest

from benchmarks.reporting.page import PAGE, PLOTS, of_files, with_tables

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_those_of_the_results():
    assert with_tables(TEXT, of_files()) == TEXT, "write them: python -m benchmarks.reporting.page"


def test_each_table_is_on_the_page_once():
    assert sorted(re.findall("<!-- table: (.*) -->", TEXT)) == sorted(of_files())


@pytest.mark.parametrize(("plot", "copy"), PLOTS.items(), ids=lambda path: path.parent.name)
def test_the_plot_of_the_page_is_that_of_the_results(plot, copy):
    assert copy.read_bytes() == plot.read_bytes(), "copy it: python -m benchmarks.reporting.page"
