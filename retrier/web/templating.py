"""Templates: Jinja2 with autoescape, and the words and numbers that all of them use."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from retrier.web import wording
from retrier.web.static_files import static_url


@cache
def environment() -> Environment:
    """Return the environment of all templates. Every value is escaped; a missing one is an error."""
    made = Environment(
        loader=PackageLoader("retrier.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("number", "plural", "noun", "duration", "iso", "utc", "clock", "ago", "size", "listed")
    made.filters.update({name: getattr(wording, name) for name in (*names, "sentence", "visible")})
    made.globals["static_url"] = static_url
    return made
