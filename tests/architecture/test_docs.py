"""The docs lead where they say."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
DOCS_PAGES = sorted(DOCS.rglob("*.md"))
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", PROJECT / "CHANGELOG.md", *DOCS_PAGES]
ENTRIES = 14


def without_code(text):
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text()))


def anchors(page):
    heads = re.findall(r"(?m)^#+ (.*)$", without_code(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def target_of(page, link):
    """The file and the anchor that a relative link of a page names."""
    path, _, anchor = link.partition("#")
    return ((page.parent / path).resolve() if path else page), anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_within_the_project_leads_somewhere(page):
    broken = []
    for link in links(page):
        if re.match(r"https?:", link):
            continue
        found, anchor = target_of(page, link)
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_readme_or_the_index():
    fronts = (PROJECT / "README.md", DOCS / "index.md")
    reached = {target_of(front, link)[0] for front in fronts for link in links(front)}
    assert [str(page.relative_to(DOCS)) for page in DOCS_PAGES if page not in reached | {DOCS / "index.md"}] == []


def test_no_folder_of_the_docs_holds_more_than_a_reader_looks_through():
    folders = [DOCS, *(path for path in DOCS.rglob("*") if path.is_dir())]
    assert {str(path): len(list(path.iterdir())) for path in folders if len(list(path.iterdir())) > ENTRIES} == {}


def test_the_readme_stays_a_front_door():
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 150
