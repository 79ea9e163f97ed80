"""Which unique message ids a failure may turn out to have."""

import pytest

from retrier.domain.folding import candidate_ids, ids_apart, named_ids
from retrier.domain.identity import with_all, with_body
from retrier.domain.sender_facts import digest
from tests.support.factories import failure

GUID = "d98c1dd4-008f-04b2-e980-0998ecf8427e"


def test_a_failure_names_the_id_it_claims_and_the_computed_one():
    made = failure(stamped_id=GUID)

    assert named_ids(made) == (GUID, made.computed_id)


def test_a_reused_message_id_has_an_id_with_the_body():
    made = failure()

    assert ids_apart(made)[0] == with_body(made.computed_id, made.body_hash)


def test_one_of_equal_body_has_an_id_with_all_that_may_differ():
    made = failure(message_id="7")
    others = [
        failure(message_id="7", queue="billing"),
        failure(message_id="7", headers={"page": "2"}),
        failure(message_id="7", retry_id="r1"),
    ]

    assert len({ids_apart(each)[1] for each in (made, *others)}) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"message_id": "7", "endpoint": "Sales", "retry_id": "r1"},
        {"message_id": None, "computed_id": GUID, "endpoint": None},
    ],
    ids=["with all", "with nothing"],
)
def test_it_is_made_of_the_same_parts_in_every_version(changes):
    """Ids are stored: made in another way, what failed before would be another message now."""
    made = failure(**changes)

    assert ids_apart(made)[1] == with_all(
        made.computed_id,
        changes["message_id"] or "",
        made.body_hash,
        digest(made.sender.facts(made.raw)),
        "orders",
        changes["endpoint"] or "",
        changes.get("retry_id", ""),
    )


def test_properties_that_cannot_be_read_say_nothing():
    made = failure(raw=b"\xff")

    assert ids_apart(made)[1] == with_all(
        made.computed_id, made.message_id, made.body_hash, digest({}), "orders", "Sales", ""
    )


def test_facts_have_one_hash_in_any_order():
    assert digest({"a": "1", "b": "2"}) == digest({"b": "2", "a": "1"}) != digest({"a": "1"})


def test_without_a_message_id_only_the_claimed_id_is_left():
    made = failure(message_id=None, stamped_id=GUID)

    assert (named_ids(made), ids_apart(made)) == ((GUID,), ())


@pytest.mark.parametrize("stamped_id", [None, GUID])
@pytest.mark.parametrize("message_id", [None, "7"])
def test_the_candidates_are_all_of_them(stamped_id, message_id):
    made = failure(stamped_id=stamped_id, message_id=message_id)

    assert candidate_ids(made) == (*named_ids(made), *ids_apart(made))
