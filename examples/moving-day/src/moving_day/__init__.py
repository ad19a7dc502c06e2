"""Moving day: three plugins for resettle that empty node pools which are to be given back."""
