"""The HTTP client of the tests, talking to an API in the same process."""

import warnings

from fastapi import FastAPI
from starlette.exceptions import StarletteDeprecationWarning

with warnings.catch_warnings():
    # It would rather have another client library; which one it uses makes no difference here.
    warnings.simplefilter("ignore", StarletteDeprecationWarning)
    from starlette.testclient import TestClient

__all__ = ["URL", "TestClient", "client_of"]

URL = "http://localhost"


def client_of(api: FastAPI) -> TestClient:
    """Return a client that follows no redirect and sees an unexpected error as its answer."""
    return TestClient(api, base_url=URL, raise_server_exceptions=False, follow_redirects=False)
