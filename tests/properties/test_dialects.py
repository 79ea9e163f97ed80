"""Headers of failures that are not of the type that their library writes: no format stumbles."""

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.dialects import DIALECTS
from retrier.domain.dialects.accounts import read_failure
from retrier.domain.dialects.dialect import FoundOn, Unintelligible
from retrier.domain.failed_message import FailureDetails
from tests.support.dialect_headers import NSB, OURS, properties
from tests.support.library_samples import SAMPLES

NAMES = sorted({name for each in SAMPLES for name in each.headers} | NSB.keys() | OURS.keys())
BODIES = sorted({each.body for each in SAMPLES})
PLAIN = [b"\xff\x00", 5, -1, 2**70, 1.5, float("nan"), float("inf"), True, None, "", "x", "7"]
NESTED = [[], [None], ["x"], [{"queue": 5}], [[{}]], {}, {"a": {"b": b"c"}}, {"attempts": "x"}]
WRONG = st.sampled_from([*PLAIN, *NESTED])


@given(
    st.sampled_from(DIALECTS),
    st.dictionaries(st.sampled_from(NAMES), WRONG, max_size=12),
    st.sampled_from(BODIES) | st.binary(),
)
def test_headers_of_any_type_are_read_or_refused_with_a_reason(dialect, headers, body):
    held = properties(headers)

    dialect.recognises(held, body)
    dialect.message_id(held)
    found = read_failure(dialect, held, otherwise=None, body=body, found_on=FoundOn("error"))

    match found:
        case Unintelligible(reason=reason):
            assert reason
        case FailureDetails():
            texts = (found.exception_type, found.exception_message, found.stack_trace)
            assert all(each is None or isinstance(each, str) for each in texts)
