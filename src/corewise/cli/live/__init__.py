"""The verbs `live …`: a demonstration, and a look at the journal of a pool."""
