"""The programs that people install resettle with, for tests: kubectl and Helm."""
