"""The pages about the plugins: what code can say is made from it, the rest is written by hand."""
