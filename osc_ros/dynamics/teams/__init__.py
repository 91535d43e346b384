"""One long chain evaluated by several processes, on one machine or over MPI."""
