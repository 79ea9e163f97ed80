"""The short form of `python -m tests.endurance.instances`: every blow once, with `-m kills`."""

from pathlib import Path

import pytest

from tests.endurance.instances.misfortunes import BLOWS
from tests.endurance.instances.namespaces import why_impossible
from tests.endurance.instances.proof import Plan, prove
from tests.endurance.instances.report import describe, make_table

pytestmark = [
    pytest.mark.journey,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
    pytest.mark.kills,
]


def test_instances_that_die_freeze_and_are_cut_off_lose_and_double_nothing(
    amqp_url: str, postgres_url: str, tmp_path: Path
) -> None:
    """Run in network namespaces where that is possible, otherwise behind relays."""
    plan = Plan(
        amqp_url=amqp_url,
        postgres_url=postgres_url,
        messages=900,
        lease=4,
        window=100,
        namespaces=why_impossible() is None,
        blows=[(name, True, False) for name in BLOWS],
    )

    proof = prove(plan, tmp_path, lambda one: print(describe(one)))  # noqa: T201 - shown with a failure only

    print(make_table(proof))  # noqa: T201 - shown with a failure only
    assert proof.count.problems == []
    assert len(proof.misfortunes) == len(BLOWS)
