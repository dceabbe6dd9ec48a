"""What is seen of the world: sample paths, sufficient statistics, event logs and their files."""
