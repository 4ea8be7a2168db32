"""Run folders to one page: tables, pictures, neighbours."""
