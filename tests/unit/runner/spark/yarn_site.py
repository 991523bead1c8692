"""A folder of settings for YARN's clients, as an administrator writes it."""

from pathlib import Path

_SITE = """<?xml version="1.0"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- of the administrator -->
<configuration>
{properties}
</configuration>
"""


def site(folder: Path, **settings: str) -> Path:
    """The folder, with `yarn-site.xml`; `_` in a name stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"<property><name>{name.replace('_', '.')}</name><value> {value} </value><final>true</final></property>"
        for name, value in settings.items()
    ]
    (folder / "yarn-site.xml").write_text(_SITE.format(properties="\n".join(lines)))
    return folder
