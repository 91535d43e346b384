"""The papers' algorithms in the papers' letters, in numpy, to be read and compared with."""
