"""Numbers, statistics, tables, plots and pages, as every report shows them."""
