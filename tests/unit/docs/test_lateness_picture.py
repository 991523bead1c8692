"""The picture of lateness shows what windows do today."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generator.lateness import ARRIVALS, KINDS, outcome, picture

SHOWN = Path(__file__).parents[3] / "docs/pictures/lateness.svg"


def test_the_picture_of_lateness_is_the_one_that_the_windows_give():
    assert SHOWN.read_text(encoding="utf-8") == picture(), f"python -m docs.generator.lateness {SHOWN}"


@pytest.mark.parametrize(("place", "late"), [(0, [1, 10]), (1, [1, 10]), (2, [1, 10]), (3, [10])])
def test_the_captions_of_lateness_name_the_late_messages(place, late):
    name, definition, caption = KINDS[place]
    assert [ARRIVALS[number] for number in sorted(outcome(definition).late)] == late, f"{name}: {caption}"
