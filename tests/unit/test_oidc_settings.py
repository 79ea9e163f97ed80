"""What is wrong with a provider of log-ins in the settings: each is refused, with its place."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from retrier.app.parts import make_provider
from retrier.clock import SystemClock
from retrier.errors import ConfigurationError
from retrier.settings import Settings, load_settings

RIGHT: Mapping[str, object] = {
    "issuer": "https://id.example",
    "client_id": "retrier",
    "roles": {"admin": ["platform"]},
}


def load(folder: Path, oidc: Mapping[str, object]) -> Settings:
    path = folder / "retrier.yaml"
    path.write_text(yaml.safe_dump({"access": {"oidc": dict(oidc)}}))
    return load_settings(path, {})


def test_a_provider_is_made_and_not_asked_yet(tmp_path: Path) -> None:
    provider = make_provider(load(tmp_path, RIGHT), SystemClock())

    assert provider is not None
    assert provider.describe() == (True, "not asked yet")


def test_without_access_there_is_none() -> None:
    assert make_provider(Settings(), SystemClock()) is None


def test_the_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    oidc = load(tmp_path, {**RIGHT, "client_secret_file": str(secret)}).access.oidc  # type: ignore[union-attr]

    assert oidc is not None
    assert oidc.read_rules().client_secret == "s3cret"
    assert "s3cret" not in repr(oidc)


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"issuer": "http://id.example"}, "access.oidc.issuer"),
        ({"issuer": "id.example"}, "access.oidc.issuer"),
        ({"issuer": "https://"}, "access.oidc.issuer"),
        ({"client_id": ""}, "access.oidc.client_id"),
        ({"roles": {}}, "access.oidc.roles"),
        ({"roles": {"root": ["x"]}}, "access.oidc.roles.root"),
        ({"roles_claim": ""}, "access.oidc.roles_claim"),
        ({"name_claim": ""}, "access.oidc.name_claim"),
        ({"scopes": ["email"]}, "access.oidc.scopes"),
        ({"client_secret_file": "/no/such/file"}, "access.oidc.client_secret_file"),
        ({"client_secret": "x", "client_secret_file": "/dev/null"}, "access.oidc.client_secret"),
        ({"role_claim": "roles"}, "access.oidc.role_claim"),
    ],
)
def test_a_wrong_provider_is_refused_with_its_place(
    tmp_path: Path, wrong: Mapping[str, object], place: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, {**RIGHT, **wrong})

    assert place in str(refused.value)
