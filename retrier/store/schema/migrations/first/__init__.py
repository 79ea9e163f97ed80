"""What the first revision makes, as it was then: later revisions change the tables, not this."""
