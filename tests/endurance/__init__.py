"""Long runs: a process is killed, hosts are cut off, the model takes many steps."""
