"""The log: which lines an event makes, in which words, and how they are written."""
