"""What the program calls: one function, one transaction, one word of the domain."""
