"""A worked example for each plugin."""

from tools.plugin_pages.examples import balancing, guarding, sorting, strategies
from tools.plugin_pages.worked import Example

EXAMPLES: dict[str, Example] = {
    **strategies.EXAMPLES,
    **balancing.EXAMPLES,
    **guarding.EXAMPLES,
    **sorting.EXAMPLES,
}
