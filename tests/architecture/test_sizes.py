"""The house rules that a linter does not know: modules, functions and folders stay small enough to be read."""

from __future__ import annotations

from collections import Counter

from tests.architecture.facts import ROOT, folders, modules
from tests.architecture.limits import ENTRIES, FUNCTION_LINES, LARGE_FOLDERS, MODULE_LINES
from tests.architecture.report import report

MODULES = modules()


def test_there_is_something_to_check():
    assert len(MODULES) > 50


def test_a_module_fits_in_the_head():
    assert not [f"{module.name}: {module.lines} lines" for module in MODULES if module.lines > MODULE_LINES]


def test_a_function_fits_on_a_page():
    functions = [function for module in MODULES for function in module.functions]
    assert not [f"{each}: {each.lines} lines" for each in functions if each.lines > FUNCTION_LINES]


def test_a_folder_shows_its_contents_at_a_glance():
    found = folders()
    assert not {name: n for name, n in found.items() if n > LARGE_FOLDERS.get(name, ENTRIES)}


def test_no_exception_outlives_its_folder():
    large = {folder for folder, entries in folders().items() if entries > ENTRIES}
    assert LARGE_FOLDERS.keys() <= large


def test_the_folders_are_of_product_and_tests_without_what_was_built():
    found = folders()
    assert {"samzapy/container", "tests", "tests/integration/spark"} <= found.keys()
    assert not [name for name in found if {"__pycache__", "target"} & set(name.split("/"))]


def test_no_two_files_of_tests_have_one_name():
    # Their folders are no packages, so pytest could collect only the first of them.
    found = Counter(path.name for path in ROOT.joinpath("tests").rglob("test_*.py"))
    assert not [name for name, files in found.items() if files > 1]


def test_no_module_is_a_heap_of_leftovers():
    heaps = {"utils", "util", "common", "helpers", "misc"}
    assert not [module.name for module in MODULES if heaps & set(module.name.split("."))]


def test_the_report_has_every_figure():
    text = "\n".join(report(MODULES))
    for figure in (
        "modules",
        "median",
        "one importer",
        "below",
        "longest function",
        "most parameters",
        "fan-out",
        "keys",
        "spi members",
    ):
        assert figure in text
