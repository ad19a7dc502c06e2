"""Why a pod goes or stays, what a node and a cycle come to, and what would change the answer.

Nothing here decides anything: the plan is drawn as ever, with some pods being watched, and asked.
"""
