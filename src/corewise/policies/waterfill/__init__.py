"""Water-filling: the demand of a class at a price, and the split at which all cores are bought."""
