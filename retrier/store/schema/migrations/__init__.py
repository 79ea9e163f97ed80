"""The schema's history, as Alembic revisions."""
