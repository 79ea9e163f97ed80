"""The list of what Retrier needs, as CycloneDX: what the sdist and the wheel carry.

`python -m tests.packaging.sbom` writes it. It names direct dependencies with the versions that are allowed, of
users' extras too, and neither a time nor what was installed one day: so it is the same bytes until
`pyproject.toml` changes.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from tests.support.project import ROOT

SBOM = ROOT / "sbom.cdx.json"
FOR_US = {"test", "mutation", "docs", "packaging"}
"""Extras for who works on Retrier: nobody who uses it installs them."""
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([a-z,]+)\])?(.*)")


def make_sbom() -> str:
    """Return the document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    components = list(list_components(project))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "retrier",
                "name": project["name"],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": f"pkg:pypi/{project['name']}",
            },
        },
        "components": components,
        "dependencies": [
            {"ref": "retrier", "dependsOn": [each["bom-ref"] for each in components]},
            *({"ref": each["bom-ref"]} for each in components),
        ],
    }
    return f"{json.dumps(document, indent=1)}\n"


def list_components(project: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each direct dependency once, in the order of names."""
    extras = project["optional-dependencies"]
    wanted = [(each, "") for each in project["dependencies"]]
    wanted += [(each, name) for name in extras if name not in FOR_US for each in extras[name]]
    for requirement, extra in sorted(wanted):
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"{requirement} is no requirement that is understood")
        name = found[1].lower()
        asked = {"retrier:requirement": requirement} | ({"retrier:extra": extra} if extra else {})
        yield {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "scope": "optional" if extra else "required",
            "purl": f"pkg:pypi/{name}",
            "properties": [{"name": key, "value": value} for key, value in asked.items()],
        }


if __name__ == "__main__":
    SBOM.write_text(make_sbom())
