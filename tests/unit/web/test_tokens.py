"""Tokens on the page: what is asked before one is revoked."""

from datetime import timedelta

from retrier.domain.access import AccessRole, AccessToken, hash_secret
from retrier.store.tokens import create_token
from tests.support.web import Web

TOKEN = AccessToken(
    name="night-run", sha256=hash_secret("secret"), role=AccessRole.READER, queues=None
)


def test_one_that_is_there_is_asked_about(web: Web) -> None:
    create_token(web.api.db, TOKEN, timedelta(days=1), "ada")

    assert "Revoke the token night-run?" in web.get("/tokens/night-run/revoke")


def test_nothing_is_asked_about_one_that_nobody_made(web: Web) -> None:
    answer = web.http.get("/tokens/night-ran/revoke")

    assert answer.status_code == 404
    assert "No token has the name night-ran." in answer.text
