"""Text from files, streams and packages: read, cleaned, deduplicated and hashed."""
