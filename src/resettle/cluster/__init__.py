"""Where snapshots come from: dumps of a cluster today."""
