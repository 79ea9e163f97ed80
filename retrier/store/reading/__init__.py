"""Reads for the faces: nothing in here changes a row."""
