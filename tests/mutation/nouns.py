"""The nouns whose faults would lose messages or send them twice, and the tests that own them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Noun(NamedTuple):
    """What is mutated and which tests have to notice: functions and classes by module, and files.

    A module without names is mutated as a whole.
    """

    modules: Mapping[str, tuple[str, ...]]
    tests: tuple[str, ...]


NOUNS: Mapping[str, Noun] = MappingProxyType(
    {
        "claims": Noun(
            modules={"retrier/store/claims.py": ()},
            tests=(
                "tests/contract/test_store_claims.py",
                "tests/contract/test_store_ended_retries.py",
            ),
        ),
        "windows": Noun(
            modules={
                "retrier/processor/forwarding_run.py": (),
            },
            tests=("tests/unit/test_windows.py",),
        ),
        "folding": Noun(
            modules={
                "retrier/domain/folding.py": (
                    "fold",
                    "_Folding",
                    "resolves",
                    "is_confirmed_by",
                    "candidate_ids",
                    "named_ids",
                    "ids_apart",
                    "_stays_copy_of",
                    "_as_message",
                    "_outcome",
                    "_inherited",
                    "_came_under_retry",
                    "_stood_before",
                    "as_stored",
                    "_count",
                    "_counted",
                    "_with_attempt",
                    "_later",
                    "_freshly_failed",
                ),
            },
            tests=(
                "tests/unit/test_agreement.py",
                "tests/unit/test_candidate_ids.py",
                "tests/unit/test_counting_failures.py",
                "tests/unit/test_folding.py",
            ),
        ),
        "judging": Noun(
            modules={"retrier/policy/policy_set.py": ()},
            tests=("tests/unit/policy", "tests/unit/test_policy_settings.py"),
        ),
        "agreement": Noun(
            modules={
                "retrier/domain/folding.py": (
                    "whose",
                    "compare",
                    "belongs",
                    "retry_named",
                    "is_same_place",
                    "has_same_body",
                    "may_be_copy",
                    "message_id_of",
                    "_compare_facts",
                    "_without",
                    "_compare",
                ),
                "retrier/domain/sender_facts.py": (),
            },
            tests=(
                "tests/unit/test_agreement.py",
                "tests/unit/test_candidate_ids.py",
                "tests/unit/test_folding.py",
            ),
        ),
    }
)
