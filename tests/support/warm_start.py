"""Imported by the process that services are forked from: they inherit what is done once here.

What a service loads late is loaded, templates are compiled, commands are made of their functions,
routes are examined, and garbage is not looked for among all that: most of the time that a forked
service works until it has answered the first request.
"""

import gc
from importlib import import_module

from typer.main import get_command

from retrier.api.application import routes_of_api
from retrier.cli import app
from retrier.cli.application import load
from retrier.store.revisions import find_newest
from retrier.web.application import routes_of_page
from retrier.web.page import environment

LOADED_LATE = (
    "alembic.command",
    "apscheduler.triggers.interval",
    "httpx",
    "psycopg",
    "retrier.transport.embedded.transport",
    "retrier.transport.rabbitmq.transport",
    "retrier.transport.redis.transport",
    "retrier.transport.sqs.transport",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.websockets.auto",
)

for name in LOADED_LATE:
    import_module(name)
for name in environment().list_templates():
    environment().get_template(name)
COMMAND = get_command(app)
"""The whole command line."""
load("run")  # it is remembered, as is the next
find_newest()
NOWHERE = {"type": "http", "method": "GET", "path": "/nowhere", "headers": []}
for route in (*routes_of_api(whole=True), *routes_of_page(logs_in=False)):
    route.matches(NOWHERE)  # FastAPI examines them only now

gc.collect()
gc.freeze()
