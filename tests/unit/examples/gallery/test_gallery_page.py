"""The page of the gallery says what the code says, and its pictures are the jobs' results."""

import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest
from jobs.gallery_job import CONFIGS

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.examples.gallery.load import inputs_of

PROJECT = CONFIGS.parent
(PAGE,) = (PROJECT / "docs").rglob("gallery.md")
TEXT = PAGE.read_text()
JOBS = sorted({PROJECT / name for name in re.findall(r"configs/[\w/-]+\.properties", TEXT)})
CODE = [*(PROJECT / "samzapy" / "examples" / "gallery").glob("*.py"), *(CONFIGS / "gallery").glob("*.py")]
SNIPPETS = re.findall(r"(?ms)^```python\n(.*?)^```", TEXT)
PICTURES = re.findall(r"\]\((\S+/gallery/[\w-]+\.svg)\)", TEXT)


def is_in(snippet, code):
    """Whether the lines follow one another in the code, at any depth."""
    depths = (code[start : start + len(snippet)] for start in range(len(code)))
    return any(dedent("\n".join(lines)) == "\n".join(snippet) for lines in depths)


def test_the_page_has_six_jobs_each_with_a_snippet_and_a_picture():
    assert len(JOBS) == 6
    assert len(PICTURES) == 6
    assert len(SNIPPETS) >= 6


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_is_in_the_code_word_by_word(number):
    assert any(is_in(SNIPPETS[number].splitlines(), path.read_text().splitlines()) for path in CODE), SNIPPETS[number]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_of_the_page_has_its_commands_at_its_top_and_an_input_that_is_always_the_same(path):
    head = path.read_text().partition("\n\n")[0]
    assert f"samzapy run {path.relative_to(PROJECT)} --until-end" in head
    job = load_job(path, strict=True)
    assert inputs_of(job.name) == inputs_of(job.name)
    assert {f"events.{stream}" for stream, _ in inputs_of(job.name)} == {str(stream) for stream in job.task.inputs}


def test_there_is_an_input_for_the_jobs_of_the_gallery_only():
    with pytest.raises(EnvironmentFailure, match="no inputs for job 'flights'; known: visits, card-fraud"):
        inputs_of("flights")


@pytest.mark.slow
def test_the_pictures_are_the_results_of_the_jobs(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="draws the pictures; the extra `dev` has it")
    monkeypatch.syspath_prepend(CONFIGS / "gallery")
    import_module("pictures").draw(tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == sorted(Path(picture).name for picture in PICTURES)
    for path in drawn:
        kept = (PAGE.parent / next(picture for picture in PICTURES if picture.endswith(f"/{path.name}"))).read_text()
        # Another version draws other lines.
        if f"Matplotlib v{matplotlib.__version__}," in kept:
            assert path.read_text() == kept
