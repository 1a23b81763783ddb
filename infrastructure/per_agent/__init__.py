"""A file for each agent: names, files, the pool of open ones, kinship across them, and the stores that they make up."""
