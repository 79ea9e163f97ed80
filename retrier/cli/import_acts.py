"""Acts on failed imports that are named: one request for each, and what all of them came to."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.ids import find_import_id
from retrier.cli.options import NOBODY_ANSWERS, with_standard_input
from retrier.cli.printer import counted
from retrier.errors import RequestRefused

_COUNTS = ("reimported", "failed_message", "stored_before", "confirmation", "own_copy")


def find_import_ids(api: ApiClient, given: Sequence[str]) -> tuple[str, ...]:
    """Return whole ids, each once. Raises RequestRefused."""
    texts = list(dict.fromkeys(with_standard_input(given)))
    if not texts:
        raise RequestRefused("Standard input named no failed import: there is nothing to do.")
    return tuple(dict.fromkeys(find_import_id(api, text) for text in texts))


def act_on_each(
    api: ApiClient,
    how: tuple[str, ...],
    import_ids: Sequence[str],
    headers: Mapping[bytes, bytes],
    content: object = None,
    params: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, Json], list[Json]]:
    """Do something with each: `how` is a method, and what comes behind the id in the path.

    Returns the answers by id, and why the service said no to others. Raises ServiceUnavailable,
    and leaves the rest as it is.
    """
    method, *path = how
    done: dict[str, Json] = {}
    refused: list[Json] = []
    for each in import_ids:
        try:
            done[each] = api.act(method, ("imports", each, *path), content, headers, params)
        except RequestRefused as refusal:
            refused.append({"id": each, "reason": str(refusal)})
    return done, refused


def add_up(done: Mapping[str, Json], refused: Iterable[Json]) -> Json:
    """Return what imports that were read one by one came to, as the service says it of all."""
    answers = done.values()
    kept: Counter[str] = Counter()
    for each in (kept_one for answer in answers for kept_one in answer["kept"]):
        kept[each["reason"]] += each["count"]
    return {
        **{name: sum(answer[name] for answer in answers) for name in _COUNTS},
        "kept": _list_reasons(kept),
        "skipped": _list_reasons(Counter(each["reason"] for each in refused)),
    }


def make_sure(confirm: Callable[[str], bool | None], number: int, *, yes: bool) -> None:
    """Ask before so many are deleted, unless the answer is given. Raises RequestRefused."""
    agreed = yes or confirm(f"Delete {counted(number, 'failed import')} for good?")
    if agreed is None:
        raise RequestRefused(f"Nothing was deleted. {NOBODY_ANSWERS}")
    if not agreed:
        raise RequestRefused("Nothing was deleted.")


def _list_reasons(reasons: Counter[str]) -> list[Json]:
    return [{"reason": reason, "count": number} for reason, number in reasons.items()]
