"""Adds Debian's packages to a bill of materials (CycloneDX).

materials.py BOM CODENAME <STATUS: a status file of dpkg, and the name of its release.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote


def installed(status: str) -> Iterator[Mapping[str, str]]:
    """Yields the fields of each installed package."""
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            yield fields


def component(package: Mapping[str, str], codename: str) -> dict[str, str]:
    """Returns a package as CycloneDX has it, with the name that scanners look up."""
    name, version = package["Package"], package["Version"]
    place = f"{quote(name)}@{quote(version, safe=':')}?arch={package['Architecture']}&distro={codename}"
    purl = f"pkg:deb/debian/{place}"
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}


def main(file: Path, codename: str) -> None:
    """Adds what is not there already."""
    bom = json.loads(file.read_text())
    components = {one["bom-ref"]: one for one in bom["components"]}
    components |= {one["bom-ref"]: one for one in (component(found, codename) for found in installed(sys.stdin.read()))}
    file.write_text(json.dumps(bom | {"components": list(components.values())}, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
