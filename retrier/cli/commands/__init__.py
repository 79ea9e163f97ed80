"""The commands, one module per noun; each module has Typer apps that make up the command line."""
