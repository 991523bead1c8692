from __future__ import annotations

import re

from benchmarks.reporting.page import PAGE, of_files, with_tables
from benchmarks.reporting.plots import folder_of_plots
from benchmarks.reporting.results import RESULTS

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_those_of_the_results():
    assert with_tables(TEXT, of_files()) == TEXT, "write them: python -m benchmarks.reporting.page"


def test_each_table_is_on_the_page_once():
    assert sorted(re.findall("<!-- table: (.*) -->", TEXT)) == sorted(of_files())


def test_plots_of_kept_results_go_where_the_page_shows_them(tmp_path):
    shown = {(PAGE.parent / link).resolve() for link in re.findall(r"!\[.*?\]\((.*?)\)", TEXT)}
    assert shown == set(folder_of_plots(RESULTS).glob("*.svg"))
    assert folder_of_plots(tmp_path) == tmp_path
