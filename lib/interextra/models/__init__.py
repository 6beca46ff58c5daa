"""Models: a recipe is fitted to a collection's queries and then searches any collection."""
