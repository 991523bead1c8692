"""The docs lead where they say."""

import re
from pathlib import Path

import pytest

from docs.generator.markdown import anchors, links, target

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
DOCS_PAGES = sorted(DOCS.rglob("*.md"))
#: The pages in the folders of the four kinds. A page beside them has no place yet.
PLACED = [page for page in DOCS_PAGES if page.parent != DOCS or page.name == "index.md"]
PAGES = [*(PROJECT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")), *DOCS_PAGES]
ENTRIES = 14


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_within_the_project_leads_somewhere(page):
    broken = []
    for link in links(page.read_text(encoding="utf-8")):
        found, anchor = target(page, link)
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found.read_text())):
            broken.append(link)
    assert broken == []


def test_every_row_of_what_happens_to_a_cluster_names_tests_that_exist():
    page = (DOCS / "explanation" / "failures.md").read_text(encoding="utf-8")
    table = page.partition("## Clusters and networks")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert [row for row in rows if not names_tests_that_exist(row.rsplit("|", 2)[1])] == []


def names_tests_that_exist(cell):
    """Whether each code in the cell is `test_file.py::test_name`, or `test_file.py[case]` with a case of a table in the
    file."""
    named = [re.fullmatch(r"(test_\w+\.py)(?:::(\w+)|\[(.+)\])", code) for code in re.findall(r"`([^`]+)`", cell)]
    found = [found and [*(PROJECT / "tests").rglob(found[1])] for found in named]
    return bool(named) and all(
        files and (f"def {each[2]}(" if each[2] else f'"{each[3]}"') in files[0].read_text(encoding="utf-8")
        for each, files in zip(named, found, strict=True)
    )


def test_every_page_is_reached_from_the_readme_or_the_index():
    fronts = (PROJECT / "README.md", DOCS / "index.md")
    reached = {target(front, link)[0] for front in fronts for link in links(front.read_text(encoding="utf-8"))}
    assert [str(page.relative_to(DOCS)) for page in DOCS_PAGES if page not in reached | {DOCS / "index.md"}] == []


def test_every_page_has_a_place_in_the_navigation_and_each_place_a_page():
    places = re.findall(r"^ +- ([\w/-]+\.md)$", (PROJECT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(places) == sorted(str(page.relative_to(DOCS)) for page in PLACED)


def test_no_folder_of_the_docs_holds_more_than_a_reader_looks_through():
    folders = [DOCS, *(path for path in DOCS.rglob("*") if path.is_dir())]
    assert {str(path): len(list(path.iterdir())) for path in folders if len(list(path.iterdir())) > ENTRIES} == {}


def test_the_readme_stays_a_front_door():
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 150
