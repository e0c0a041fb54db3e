"""Files: written whole or not at all, locked, downloaded, unpacked, and read without trusting them."""
