"""Water-filling: what a class buys at a price, and the split of the cores at which they are all bought."""
