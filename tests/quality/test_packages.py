"""What stands in the packages; `python -m tests.packaging` builds them and tries them."""

import json
import re
import tomllib

import yaml

from retrier import __version__
from tests.packaging.sbom import FOR_US, SBOM, make_sbom
from tests.support.project import ROOT, list_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCS = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()


def test_the_version_stands_in_one_place() -> None:
    files = [path for path in list_files() if path.parts[0] == "retrier" and path.suffix == ".py"]

    naming = [str(path) for path in files if f'"{__version__}"' in (ROOT / path).read_text()]

    assert naming == ["retrier/__init__.py"]
    assert PROJECT["dynamic"] == ["version"]


def test_the_version_is_one_that_an_index_takes() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", __version__)


def test_the_packages_hold_readme_licence_and_types() -> None:
    assert (ROOT / PROJECT["readme"]).read_text().startswith("# Retrier")
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []
    assert (ROOT / "retrier" / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_lowest_python_is_one_of_those_that_are_named() -> None:
    lowest = PROJECT["requires-python"].removeprefix(">=")

    assert f"Programming Language :: Python :: {lowest}" in PROJECT["classifiers"]


def test_an_extra_for_users_is_in_the_docs() -> None:
    extras = set(PROJECT["optional-dependencies"]) - FOR_US

    assert extras
    assert [name for name in extras if f"retrier[{name}]" not in DOCS] == []


def test_the_list_of_dependencies_is_that_of_the_project() -> None:
    assert SBOM.read_text() == make_sbom()  # `python -m tests.packaging.sbom` writes it anew


def test_the_list_of_dependencies_has_each_of_them_and_no_tool_of_ours() -> None:
    listed = {each["name"]: each["scope"] for each in json.loads(make_sbom())["components"]}

    assert (listed["sqlalchemy"], listed["celery"]) == ("required", "optional")
    assert {"pytest", "sphinx", "mutmut", "twine"} & set(listed) == set()
    assert len(listed) == len(json.loads(make_sbom())["components"])


def test_the_wheel_carries_the_list_of_dependencies() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]

    assert tools["hatch"]["build"]["targets"]["wheel"]["sbom-files"] == [SBOM.name]


def test_the_packages_name_no_address() -> None:
    assert "urls" not in PROJECT


def test_a_release_is_checked_before_it_is_published() -> None:
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    checks = [each["run"] for each in jobs["check"]["steps"]]

    assert ".venv/bin/python -m tests.packaging --install" in checks
    assert jobs["publish"]["needs"] == "check"


def test_a_release_names_no_address_and_runs_nothing_of_others() -> None:
    assert "://" not in WORKFLOW
    assert "uses:" not in WORKFLOW


def test_only_the_job_that_publishes_may_say_who_it_is() -> None:
    workflow = yaml.safe_load(WORKFLOW)

    assert workflow["permissions"] == {}
    allowed = {name: list(job["permissions"]) for name, job in workflow["jobs"].items()}
    assert allowed == {"check": ["contents"], "publish": ["contents", "id-token"]}
