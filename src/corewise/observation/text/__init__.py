"""Text of tables as columns: fields of lines found and read at once, without an object for each."""
