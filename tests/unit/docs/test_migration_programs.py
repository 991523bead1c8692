"""The five programs of each migration page do what their first columns say."""

from pathlib import Path

import pytest

from samzapy import Pipeline, Tumbling, Within, field
from samzapy.testing.pipeline import PipelineDriver

PAGES = Path(__file__).parents[3] / "docs" / "how-to" / "migrate"
START = 1_700_000_040_000
VIEWS = [("ann", "/"), ("bob", "/docs"), ("ann", "/")]
TABLES = [("users", "ann", {"name": "Ann"}), ("customers", "c1", {"city": "Bonn"})]
MINUTE = {"start": START, "end": START + 60_000, "kind": "final"}
#: The results of each program, by key, in the order of the rows.
RESULTS = [
    {"/": [1, 2], "/docs": [1]},
    {"ann": [{"key": "ann", **MINUTE, "count": 2}], "bob": [{"key": "bob", **MINUTE, "count": 1}]},
    {"ann": [[{"page": "/"}, {"name": "Ann"}]] * 2},
    {"ann": [[{"page": "/"}, {"at": 3}]] * 2},
    {"o1": [[{"customer": "c1"}, {"city": "Bonn"}], [{"customer": "c1"}, {"city": "Kiel"}]]},
]


def programs_of(page):
    """The last column of the table of programs."""
    table = (PAGES / page).read_text().partition("## The same five programs\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    return [row.strip("| ").rpartition(" | ")[2].strip("`") for row in rows[2:]]


CODE = [(page, number) for page in sorted(path.name for path in PAGES.glob("*.md")) for number in range(len(RESULTS))]


@pytest.mark.parametrize(("page", "number"), CODE)
def test_a_program_of_a_migration_page_gives_its_results(page, number):
    programs = programs_of(page)
    assert len(programs) == len(RESULTS)
    pipeline = Pipeline("programs")
    streams = {name: pipeline.stream(f"kafka.{name}") for name in ("views", "clicks")}
    tables = {name: pipeline.table(f"kafka.{name}") for name in ("users", "orders", "customers")}
    names = {"Tumbling": Tumbling, "Within": Within, "field": field}
    eval(programs[number], {**streams, **tables, **names}).to("kafka.out")  # the code of our own page
    with PipelineDriver(pipeline) as driver:
        feed(driver)
        results = {}
        for key, message in driver.outputs("out").pairs:
            if key != "tick":
                results.setdefault(key, []).append(message)
    assert results == RESULTS[number]


def feed(driver):
    """Rows of the tables, views, a click, an order, a change of its customer, then time."""
    for stream, key, row in [*TABLES, ("orders", "o1", {"customer": "c1"})]:
        driver.send(stream, row, key=key, timestamp=START)
    for second, (user, page) in enumerate(VIEWS):
        driver.send("views", {"page": page}, key=user, timestamp=START + 1000 * second)
    driver.send("clicks", {"at": 3}, key="ann", timestamp=START + 3000)
    driver.send("customers", {"city": "Kiel"}, key="c1", timestamp=START + 4000)
    for stream in ("views", "clicks"):
        driver.send(stream, {"page": "tick"}, key="tick", timestamp=START + 3_600_000)
    for _ in range(3):
        driver.advance(1)
