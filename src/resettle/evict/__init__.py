"""Carrying out a plan: a last look, one paced request after another, and what came of each."""
