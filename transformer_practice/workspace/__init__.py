"""The reader's own folder: what they write in it, and what becomes of that."""
