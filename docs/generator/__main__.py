"""`python -m docs.generator FOLDER`: write the pages of the site into the folder, which is emptied first."""

import sys
from pathlib import Path

from docs.generator.site import Site

if len(sys.argv) != 2:
    sys.exit("usage: python -m docs.generator FOLDER")
Site(Path(__file__).parents[2]).write(Path(sys.argv[1]))
