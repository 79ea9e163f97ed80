"""Mutation testing: which small faults in the most delicate nouns no test would find."""
