"""The other ways to move and to store messages, measured for comparison."""
