"""Imported by the process that services are forked from: they inherit what is done once here.

What a service loads late is loaded, templates are compiled, and garbage is not looked for among all
that: two thirds of the time that a forked service works until it is ready.
"""

import gc
from importlib import import_module

from retrier.web.page import environment

LOADED_LATE = (
    "alembic.command",
    "apscheduler.triggers.interval",
    "psycopg",
    "retrier.transport.embedded.transport",
    "retrier.transport.rabbitmq.transport",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.h11_impl",
)

for name in LOADED_LATE:
    import_module(name)
for name in environment().list_templates():
    environment().get_template(name)
gc.collect()
gc.freeze()
