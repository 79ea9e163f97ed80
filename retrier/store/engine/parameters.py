"""What PostgreSQL's library takes as parameters of a URL."""

from functools import cache

from psycopg.pq import Conninfo


@cache
def list_parameters() -> frozenset[str]:
    """Return the names that libpq knows, as it is installed."""
    return frozenset(option.keyword.decode() for option in Conninfo.get_defaults())
