"""The layout of the storage root and the object store."""
