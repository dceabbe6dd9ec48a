"""The curves from data: how jobs scale, and how sure the data make us."""
