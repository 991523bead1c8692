"""The cells of the matrix of versions name tests, brokers and Pythons that exist."""

from pathlib import Path

from tests.matrix.cells import CELLS, ON_A_BROKER, SHORT, THOROUGH

ROOT = Path(__file__).parents[3]


def test_every_test_that_a_cell_runs_exists():
    words = {word for step in (*SHORT, *THOROUGH, *ON_A_BROKER) for word in step.command}
    files = [word.replace("{root}", str(ROOT)) for word in words if word.endswith(".py")]
    assert files
    assert not [file for file in files if not Path(file).is_file()]


def test_the_cells_have_unique_names_and_known_brokers():
    from samzapy.devkafka.runtime import chosen_version

    assert len({cell.name for cell in CELLS}) == len(CELLS)
    versions = [dict(cell.environ).get("SAMZAPY_KAFKA_VERSION") for cell in CELLS]
    assert [chosen_version(version) for version in versions if version]


def test_the_oldest_and_the_newest_python_of_pyproject_have_cells():
    pythons = {cell.python for cell in CELLS}
    text = (ROOT / "pyproject.toml").read_text()
    named = {line.split(":: ")[2].rstrip('",') for line in text.splitlines() if "Python :: 3." in line}
    oldest, newest = (choose(named, key=lambda version: int(version[2:])) for choose in (min, max))
    assert {oldest, newest} <= pythons
    assert f'requires-python = ">={oldest}"' in text
