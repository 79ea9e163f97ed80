"""What is selected is what is acted on: random messages, random conditions, and what each means.

`meaning` says what a condition means, from the documentation and by plain Python: it uses nothing
of the product. `stock` puts random messages into a database as ingestion does, and into every
state as people do. `faces` are the API, the command line and the page. `rounds` holds them against
the meaning; `refusals` are conditions that nobody understands.

The short form is `tests/properties/test_selections.py`, the long one `python -m
tests.endurance.selections`.
"""
