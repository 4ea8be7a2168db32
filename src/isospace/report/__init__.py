"""Reports: run folders to one page with tables, pictures and neighbours."""
