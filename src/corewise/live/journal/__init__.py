"""Journal of a live pool: the SQLite store, snapshots in it, replay and its verification."""
