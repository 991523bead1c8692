"""The README as a package index shows it: its links lead to pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generator.markdown import anchors, links
from docs.generator.site import Site

tomllib = pytest.importorskip("tomllib", reason="part of Python 3.11")

PROJECT = Path(__file__).parents[3]
SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
HOME = SETTINGS["project"]["urls"]["Documentation"]


@pytest.fixture(scope="module")
def shown():
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (PROJECT / hook["fragments"][0]["path"]).read_text(encoding="utf-8")
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    Site(PROJECT).write(folder)
    return folder


def test_no_link_is_relative(shown):
    assert links(shown) == []


def test_every_link_to_the_site_leads_to_a_page_and_its_heading(shown, site):
    found = re.findall(rf"\]\({re.escape(HOME)}([^)#]*)(?:#([^)]*))?\)", shown)
    assert len(found) > 20
    for place, anchor in found:
        page = site / f"{place.rstrip('/') or 'index'}.md"
        assert page.exists(), place
        assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), f"{place}#{anchor}"


def test_the_urls_of_the_project_lead_to_pages_of_the_site(site):
    for url in SETTINGS["project"]["urls"].values():
        assert url.startswith(HOME)
        assert (site / f"{url.removeprefix(HOME).rstrip('/') or 'index'}.md").exists(), url
