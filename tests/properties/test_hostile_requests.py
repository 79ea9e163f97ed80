"""Requests made to break something, beyond what any document describes: refused, never 5xx."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.hostile_requests import HOSTILE, HostileRequest
from tests.support.bare_requests import LOCALHOST, ask_bare
from tests.support.seeded import Seeded

EXAMPLES = 50


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_request_breaks_nothing(
    seeded: Seeded, hostile: st.SearchStrategy[HostileRequest]
) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(request=hostile)
    def ask(request: HostileRequest) -> None:
        headers = [LOCALHOST, *request.headers]

        answer = ask_bare(seeded.api.app, request.method, request.target, headers, request.body)

        assert answer.status < 500, answer.body

    ask()
