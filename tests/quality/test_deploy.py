"""The files of docs/deploy agree with the code: commands, settings, ports, paths, times."""

import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from retrier.settings import Settings, load_settings
from tests.support.commands import OPTIONS
from tests.support.deploy import (
    COMPOSE,
    CONTAINER,
    CONTAINERFILE,
    DEPLOY,
    KUBERNETES,
    POD,
    REPLICAS,
    TEAM,
    TEAM_CONTAINER,
    UNIT,
    UPGRADE,
    VARIABLE,
    unit_line,
    walk_commands,
    walk_probes,
)
from tests.support.project import ROOT
from tests.support.setting_keys import SETTING_KEYS, variable_of

VARIABLES = {variable_of(key) for key in SETTING_KEYS}
NO_SETTINGS = {"RETRIER_PORT", "RETRIER_DEPLOY_PASSWORD"}
IMAGE = re.compile(r"^(?:FROM |ARG BASE=|\s+image: )([^$\s]\S*)", re.MULTILINE)
PLAIN_IMAGE = re.compile(r"[a-z]+(:[\w.-]+)?")
FILES = sorted(DEPLOY.iterdir())
LONGEST_STOP = 12
"""Seconds the parts and the API have to end, added up."""


def command_of(words: list[str]) -> tuple[str, ...]:
    """Return the words of a command line that are before its first option."""
    return tuple(takewhile(lambda word: not word.startswith("-"), words))


def team_settings(folder: Path) -> Settings:
    """Return the settings with which a pod of a team starts."""
    config = folder / "retrier.yaml"
    config.write_text(TEAM["ConfigMap"]["data"]["retrier.yaml"])
    given = {each["name"]: each.get("value", "") for each in TEAM_CONTAINER["env"]}
    hosts = given["RETRIER_API__ALLOWED_HOSTS"].replace("$(POD_IP)", "10.1.2.3")
    secrets = KUBERNETES["Secret"]["stringData"]
    return load_settings(config, {**secrets, "RETRIER_API__ALLOWED_HOSTS": hosts})


def test_a_file_sets_what_can_be_set() -> None:
    named = {(path.name, name) for path in FILES for name in VARIABLE.findall(path.read_text())}

    assert named
    assert [each for each in named if each[1] not in VARIABLES | NO_SETTINGS] == []


def test_a_file_names_images_that_any_registry_may_have() -> None:
    named = [(path.name, image) for path in FILES for image in IMAGE.findall(path.read_text())]

    assert named
    assert [each for each in named if not PLAIN_IMAGE.fullmatch(each[1])] == []


def test_a_file_starts_a_command_that_is_there() -> None:
    commands = list(walk_commands())
    options = [
        (file, command_of(words), word)
        for file, words in commands
        for word in words
        if word.startswith("-")
    ]

    assert commands
    assert [each for each in options if each[2] not in OPTIONS[each[1]]] == []


def test_a_probe_asks_the_port_that_is_the_default() -> None:
    probes = list(walk_probes())

    assert probes
    port = f'"127.0.0.1", {Settings().api.port}'
    assert [file for file, words in probes if port not in words[-1]] == []


def test_the_settings_of_the_pods_are_right(tmp_path: Path) -> None:
    config = tmp_path / "retrier.yaml"
    config.write_text(KUBERNETES["ConfigMap"]["data"]["retrier.yaml"])

    settings = load_settings(config, KUBERNETES["Secret"]["stringData"])

    assert settings.broker.url[0].startswith("amqp://")
    assert settings.database.url.startswith("postgresql")


def test_a_pod_of_a_team_may_be_asked_by_its_own_address(tmp_path: Path) -> None:
    """Kubelet and Prometheus ask so."""
    assert "10.1.2.3" in team_settings(tmp_path).api.allowed_hosts


def test_the_pods_of_a_team_leave_the_tables_to_the_job(tmp_path: Path) -> None:
    assert not team_settings(tmp_path).database.upgrade
    assert UPGRADE["args"][:2] == ["db", "upgrade"]
    assert UPGRADE["image"] == TEAM_CONTAINER["image"]


def test_nobody_has_the_token_that_stands_in_the_file_of_a_team(tmp_path: Path) -> None:
    access = team_settings(tmp_path).access
    assert access is not None

    assert [each.sha256 for each in access.tokens] == ["0" * 64]


def test_service_probes_and_policy_of_a_team_use_the_ports_that_are_listened_on(
    tmp_path: Path,
) -> None:
    api = team_settings(tmp_path).api
    ports = {each["name"]: each["containerPort"] for each in TEAM_CONTAINER["ports"]}
    served = {
        each["name"]: (each["port"], each["targetPort"])
        for each in TEAM["Service"]["spec"]["ports"]
    }
    probes = [TEAM_CONTAINER[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    let_in = {
        port["port"] for each in TEAM["NetworkPolicy"]["spec"]["ingress"] for port in each["ports"]
    }
    (scraped,) = TEAM["ServiceMonitor"]["spec"]["endpoints"]

    assert ports == {"http": api.port, "health": api.health_port}
    assert served == {name: (port, name) for name, port in ports.items()}
    assert {each["httpGet"]["port"] for each in probes} == {scraped["port"]} == {"health"}
    assert let_in == set(ports.values())


def test_the_pods_of_a_team_are_kept_as_the_others() -> None:
    team, alone = (each["Deployment"]["spec"]["template"]["spec"] for each in (TEAM, KUBERNETES))
    job = TEAM["Job"]["spec"]["template"]["spec"]

    assert {**team, "containers": None} == {**alone, "containers": None}
    assert TEAM_CONTAINER["securityContext"] == CONTAINER["securityContext"]
    assert UPGRADE["securityContext"] == CONTAINER["securityContext"]
    assert job["securityContext"] == alone["securityContext"]


def test_what_belongs_to_the_pods_of_a_team_selects_them() -> None:
    labels = TEAM["Deployment"]["spec"]["template"]["metadata"]["labels"]
    policy = TEAM["NetworkPolicy"]["spec"]["podSelector"]["matchExpressions"][0]

    assert TEAM["Service"]["spec"]["selector"] == labels
    assert TEAM["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert (
        TEAM["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
        == TEAM["Service"]["metadata"]["labels"]
    )
    jobs = TEAM["Job"]["spec"]["template"]["metadata"]["labels"]
    assert policy["values"] == [labels["app"], jobs["app"]]


def test_the_settings_of_the_composed_replicas_are_right() -> None:
    environ = {
        name: value.replace("${RETRIER_DEPLOY_PASSWORD:?}", "secret")
        for name, value in REPLICAS["environment"].items()
    }

    settings = load_settings(None, environ)

    assert settings.broker.url[0].startswith("amqp://")
    assert settings.database.url.startswith("postgresql")


def test_the_pods_read_the_file_that_is_mounted() -> None:
    (mount,) = (each for each in CONTAINER["volumeMounts"] if each["name"] == "config")

    assert CONTAINER["args"][-1] == f"{mount['mountPath']}/retrier.yaml"


def test_there_are_three_replicas_everywhere() -> None:
    assert KUBERNETES["Deployment"]["spec"]["replicas"] == 3
    assert REPLICAS["deploy"]["replicas"] == 3


def test_a_stop_is_given_the_time_it_takes() -> None:
    given = [
        POD["terminationGracePeriodSeconds"],
        int(REPLICAS["stop_grace_period"].removesuffix("s")),
        int(unit_line("TimeoutStopSec")),
    ]

    assert min(given) > LONGEST_STOP


def test_the_replicas_wait_for_services_that_are_there() -> None:
    assert set(REPLICAS["depends_on"]) < set(COMPOSE["services"])


def test_the_image_is_built_from_what_the_repository_holds() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    ]

    assert {"pyproject.toml", "README.md", "LICENSE", "sbom.cdx.json", "retrier"} == set(copied)
    assert all((ROOT / name).exists() for name in copied)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "retrier.service"
    # It looks whether the program is there, so it is shown one that is.
    unit.write_text(UNIT.replace("/opt/retrier/bin/retrier", sys.executable))

    done = subprocess.run([systemd, "verify", unit], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_calls_the_unit_hardly_exposed() -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    command = [systemd, "security", "--offline=yes", "--threshold=20", DEPLOY / "retrier.service"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
