"""The tables as the first revision makes them. Later revisions never change this package."""
