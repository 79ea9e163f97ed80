"""Builds the packages, checks them, and tries them without the checkout."""
