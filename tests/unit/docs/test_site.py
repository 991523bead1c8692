"""The pages of the site have what the code says, and no link out of the site."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path

import click
import pytest

from docs.generator.markdown import code, links
from docs.generator.site import Site
from samzapy import errors
from samzapy.cli.main import cli
from samzapy.config.known_keys import ALL_KEYS, unsupported
from samzapy.metrics.families import known_families

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    Site(PROJECT).write(folder)
    return folder


def text(site, page):
    return (site / page).read_text(encoding="utf-8")


def test_every_key_is_on_the_page_of_keys_under_a_topic(site):
    page = text(site, "reference/keys.md")
    assert [key.name for key in ALL_KEYS if f'<a id="{key.name}"></a>' not in page] == []
    assert "\n## More\n" not in page, "a new kind of key needs a topic in docs/generator/keys.py"


def test_every_key_of_samza_without_effect_is_listed(site):
    page = text(site, "reference/samza-keys.md")
    assert [key for key, _, _ in unsupported() if code(key) not in page] == []


def test_every_command_is_listed_with_its_options(site):
    page = text(site, "reference/commands.md")
    context = click.Context(cli, info_name="samzapy")
    for name in cli.list_commands(context):
        assert f"\n## samzapy {name}\n" in page
    assert "\n### samzapy topic create\n" in page
    assert code("--until-end") in page


def test_every_metric_is_listed(site):
    page = text(site, "reference/metrics.md")
    assert [
        each.name for each in known_families() if code(f"samzapy_{each.name}").removesuffix("</code>") not in page
    ] == []


def test_every_error_is_listed_with_its_exit_code(site):
    page = text(site, "reference/errors.md")
    names = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert [name for name in names if code(name) not in page] == []


def test_every_text_of_the_catalogue_of_errors_is_one_that_the_code_has(site):
    catalogue = text(site, "reference/errors.md").partition("## Catalogue")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)`", catalogue, re.MULTILINE)
    assert len(found) > 10
    sources = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "samzapy").rglob("*.py"))
    joined = re.sub(r"\"\s*\n\s*f?\"", "", sources)
    assert [row for row in found if max(row.split("…"), key=len).strip() not in joined] == []


NAMES = [
    (page, *found)
    for page in sorted((PROJECT / "docs/reference/api").glob("*.md"))
    for found in re.findall(r"^- \[([\w.]+)\]\((\S+)\)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize(("page", "name", "link"), NAMES, ids=lambda each: str(each).rpartition("/")[2])
def test_a_name_of_the_interface_leads_to_the_module_that_defines_it(page, name, link):
    found = pydoc.locate(name)
    assert found is not None, "no such name"
    assert inspect.getdoc(found)
    assert Path(inspect.getsourcefile(inspect.unwrap(found))) == (page.parent / link).resolve()


def test_the_site_shows_the_docstring_of_each_name_of_the_interface(site):
    shown = {found for page in (site / "reference/api").glob("*.md") for found in page.read_text().splitlines()}
    assert len(NAMES) > 100
    assert [name for _, name, _ in NAMES if f"::: {name}" not in shown] == []


def test_no_mark_is_left_and_every_link_leads_to_a_page_of_the_site(site):
    broken = []
    for page in site.rglob("*.md"):
        content = page.read_text(encoding="utf-8")
        assert "<!-- generated:" not in content or page.is_relative_to(site / "project")
        for link in links(content):
            found = page.parent / link.partition("#")[0]
            if not found.exists():
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_a_page_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("See [there](there.md).\n")
    with pytest.raises(FileNotFoundError, match=r"docs/index\.md: there\.md leads nowhere"):
        Site(tmp_path).write(tmp_path / "out")


def test_an_unknown_mark_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("<!-- generated: kyes -->\n")
    with pytest.raises(ValueError, match=r"generated: kyes.*expected one of alerts, commands, errors, keys"):
        Site(tmp_path).write(tmp_path / "out")
