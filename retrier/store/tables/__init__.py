"""One module for each table: the only one that writes it. Only verbs call them."""
