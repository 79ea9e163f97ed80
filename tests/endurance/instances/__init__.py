"""Several instances on one broker and one database, while hosts die, freeze and are cut off."""
