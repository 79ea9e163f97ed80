"""The files for running it for real, taken apart: what they start, and with which settings."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.project import ROOT

DEPLOY = ROOT / "docs" / "deploy"
UNIT = (DEPLOY / "retrier.service").read_text()
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES: dict[str, dict[str, Any]] = {
    each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}
TEAM: dict[str, dict[str, Any]] = {
    each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes-team.yaml").read_text())
}
REPLICAS: dict[str, Any] = COMPOSE["services"]["retrier"]
POD: dict[str, Any] = KUBERNETES["Deployment"]["spec"]["template"]["spec"]
CONTAINER: dict[str, Any] = next(each for each in POD["containers"] if each["name"] == "retrier")

(TEAM_CONTAINER,) = TEAM["Deployment"]["spec"]["template"]["spec"]["containers"]
(UPGRADE,) = TEAM["Job"]["spec"]["template"]["spec"]["containers"]

VARIABLE = re.compile(r"\bRETRIER_[A-Z]+(?:__[A-Z_]+)?\b")


def unit_line(name: str) -> str:
    """Return the value of a line of the systemd unit."""
    (value,) = re.findall(rf"^{name}=(.+)$", UNIT, re.MULTILINE)
    return str(value)


def walk_commands() -> Iterator[tuple[str, list[str]]]:
    """Walk what is started: the file, and the words behind `retrier`."""
    yield "retrier.service", shlex.split(unit_line("ExecStart"))[1:]
    yield "Containerfile", yaml.safe_load(re.findall(r"^CMD (.+)$", CONTAINERFILE, re.MULTILINE)[0])
    yield "compose.yaml", REPLICAS["command"]
    yield "kubernetes.yaml", CONTAINER["args"]
    yield "kubernetes-team.yaml", TEAM_CONTAINER["args"]
    yield "kubernetes-team.yaml, upgrade", UPGRADE["args"]


def walk_probes() -> Iterator[tuple[str, list[str]]]:
    """Walk the commands that ask a running service for its health."""
    (asked,) = re.findall(r"^HEALTHCHECK .* CMD (.+)$", CONTAINERFILE, re.MULTILINE)
    yield "Containerfile, liveness", yaml.safe_load(asked)
    yield "compose.yaml", REPLICAS["healthcheck"]["test"][1:]
    yield "kubernetes.yaml, liveness", CONTAINER["livenessProbe"]["exec"]["command"]
    yield "kubernetes.yaml, readiness", CONTAINER["readinessProbe"]["exec"]["command"]
