"""Texts that several tasks read: the documentation that is installed, and files of the reader."""
