"""Reports: run folders to one page with tables and pictures."""
