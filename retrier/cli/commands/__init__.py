"""The commands, one module per noun; each module has a Typer app that the command line takes in."""
