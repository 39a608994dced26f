"""Files that runs leave in their out dir: the index, the download, the digests."""
