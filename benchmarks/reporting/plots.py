"""How plots are drawn without a screen, and where they go."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from benchmarks.reporting.results import RESULTS, ROOT

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

plt.rcParams["svg.fonttype"] = "none"

#: The plots of the kept results. The page of the docs shows them.
MEASURED = ROOT / "docs" / "pictures" / "measured"


def folder_of_plots(output: Path) -> Path:
    """The folder for the plots of a program that writes its results into `output`."""
    return MEASURED if output == RESULTS else output


def save(figure: Figure, file: Path, bottom: float = 0.0) -> None:
    """Write a figure as an SVG that depends on its content alone. `bottom`: the part that its axes leave free there."""
    figure.tight_layout(rect=(0, bottom, 1, 1))
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
