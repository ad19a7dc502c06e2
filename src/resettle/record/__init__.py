"""A record of cycles: what each one saw, decided and did, kept to be examined later.

    DIR/
      00000017-20260131T120000Z.cycles.gz     what cycles 17, 18, … decided and did, a line each
      00000017-20260131T120000Z.objects.gz    what they saw: all objects, then what changed since

Such a pair is a segment. It begins with all objects, so each can be read alone and the oldest can
be deleted. A plan is never written, only what it takes to draw it again, and a digest to check the
result. Start with `writer`, then `reader`. `runtime` and `cli` import it.

Import from outside: `entry`, `reader`, `replay`, `segments`, `writer`.
"""
