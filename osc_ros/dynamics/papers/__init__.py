"""The papers' algorithms in the papers' notation, in numpy, as readable references."""
