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
IMAGE = re.compile(r"^(?:FROM|\s+image:) (\S+)", re.MULTILINE)
PLAIN_IMAGE = re.compile(r"[a-z]+(:[\w.-]+)?")
LONGEST_STOP = 12
"""Seconds the parts and the API have to end, added up."""


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_a_file_sets_what_can_be_set(path: Path) -> None:
    named = set(VARIABLE.findall(path.read_text()))

    assert named - VARIABLES - NO_SETTINGS == set()


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_a_file_names_images_that_any_registry_may_have(path: Path) -> None:
    assert [
        each for each in IMAGE.findall(path.read_text()) if not PLAIN_IMAGE.fullmatch(each)
    ] == []


@pytest.mark.parametrize(("file", "words"), list(walk_commands()), ids=str)
def test_a_file_starts_a_command_that_is_there(file: str, words: list[str]) -> None:
    assert {word for word in words if word.startswith("-")} <= set(OPTIONS[(words[0],)]), file


@pytest.mark.parametrize(("file", "words"), list(walk_probes()), ids=str)
def test_a_probe_asks_the_port_that_is_the_default(file: str, words: list[str]) -> None:
    assert f'"127.0.0.1", {Settings().api.port}' in words[-1], file


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
