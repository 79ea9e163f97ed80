"""Which unique message ids a failure may turn out to have."""

import pytest

from retrier.domain.folding import candidate_ids, id_with_body, named_ids
from retrier.domain.identity import with_body
from tests.support.factories import failure

GUID = "d98c1dd4-008f-04b2-e980-0998ecf8427e"


def test_a_failure_names_the_id_it_claims_and_the_computed_one():
    made = failure(stamped_id=GUID)

    assert named_ids(made) == (GUID, made.computed_id)


def test_a_reused_message_id_has_an_id_with_the_body():
    made = failure()

    assert id_with_body(made) == with_body(made.computed_id, made.body_hash)


def test_without_a_message_id_only_the_claimed_id_is_left():
    made = failure(message_id=None, stamped_id=GUID)

    assert (named_ids(made), id_with_body(made)) == ((GUID,), None)


@pytest.mark.parametrize("stamped_id", [None, GUID])
@pytest.mark.parametrize("message_id", [None, "7"])
def test_the_candidates_are_all_of_them(stamped_id, message_id):
    made = failure(stamped_id=stamped_id, message_id=message_id)

    with_its_body = id_with_body(made)
    assert candidate_ids(made) == (*named_ids(made), *([with_its_body] if with_its_body else []))
