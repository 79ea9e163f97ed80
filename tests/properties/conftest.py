"""An API with something of everything in its database, for requests made at random."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.support.api import Api
from tests.support.databases import open_upgraded, sqlite_url, temporary_postgres
from tests.support.seeded import Seeded, seed

settings.register_profile("long", max_examples=2000)
"""Twenty times as much: `pytest --hypothesis-profile=long`."""


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def seeded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seeded]:
    """Give it on each database; the tests of a module share it, and what they change stays."""
    with ExitStack() as stack:
        if request.param == "postgres":
            url = stack.enter_context(temporary_postgres(request.getfixturevalue("postgres_url")))
        else:
            url = sqlite_url(tmp_path_factory.mktemp("seeded"))
        db = open_upgraded(url)
        stack.callback(db.dispose)
        api = Api(db)
        stack.callback(api.http.close)
        yield Seeded(api, seed(api))
