"""Plain chains, compiled: bodies with mass, one after the other, one tip on the last."""
