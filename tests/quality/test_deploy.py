"""The files of docs/deploy agree with the code: commands, settings, ports, paths, times."""

import re
import shutil
import subprocess
import sys
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
    UNIT,
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
        (file, words[0], word) for file, words in commands for word in words if word.startswith("-")
    ]

    assert commands
    assert [each for each in options if each[2] not in OPTIONS[(each[1],)]] == []


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

    assert {"pyproject.toml", "README.md", "LICENSE", "retrier"} == set(copied)
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
