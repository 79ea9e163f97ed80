"""The log: which lines an event produces, with which words, and how they are written."""
