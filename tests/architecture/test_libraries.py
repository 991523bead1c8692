"""A third-party library is imported from its own folder only."""

from __future__ import annotations

import pytest

from tests.architecture.facts import ROOT, modules
from tests.architecture.libraries import LIBRARIES

MODULES = modules()


@pytest.mark.parametrize("library", sorted({name for module in MODULES for name in module.libraries}))
def test_a_library_is_imported_from_its_own_folder_only(library):
    homes = [ROOT / home for home in LIBRARIES.get(library, ())]
    outside = [
        module.name
        for module in MODULES
        if library in module.libraries and not any(module.path.is_relative_to(home) for home in homes)
    ]
    assert not outside, f"{library} belongs to {', '.join(LIBRARIES.get(library, ())) or 'no folder'}"


def test_the_names_of_the_api_need_the_standard_library_only():
    of_api = [module for module in MODULES if module.name.startswith("samzapy.api")]
    assert of_api
    # Which type checkers bring along, and nothing imports at run time.
    declarations = {"typing_extensions"}
    assert not [module.name for module in of_api if set(module.libraries) - declarations]


def test_each_wall_has_something_behind_it():
    """A line for a folder that imports nothing of the library is out of date."""
    for library, homes in LIBRARIES.items():
        importing = [module.path for module in MODULES if library in module.libraries]
        for home in homes:
            assert any(path.is_relative_to(ROOT / home) for path in importing), f"{home} does not import {library}"
