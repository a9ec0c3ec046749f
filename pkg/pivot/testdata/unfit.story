# A node on which a member could not start (its certificates, a port another
# process holds, a slot that is a mount of its own) gets no entry in the list:
# one that never starts helps nobody (M1, T1, L5). Once it is fit, the growth goes on.

state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
unfit cp-2 127.0.0.12:2380 is held by pid 4711 (etcd)
member 1 voter on cp-1/seed serves atindex leader
----

next
----
refuse RegisterLearner cp-2: NodeUnfit: 127.0.0.12:2380 is held by pid 4711 (etcd); a node on which a member can start

# Registered already, and not yet started: not begun either.
also
member 101 learner on cp-2/member unstarted
----

next
----
refuse RegisterLearner cp-2: NodeUnfit: 127.0.0.12:2380 is held by pid 4711 (etcd); a node on which a member can start

also
unfit cp-2
----

next
----
RegisterLearner cp-1/member: 1 of 2 named nodes have a member

# A member that runs proves the contrary of whatever is said.
state
want cp-1
grant held
cp-1 answers member=running/serving:100 proxy=routed
unfit cp-1 certificate server: expired
member 100 voter on cp-1/member serves atindex leader
----

next
----
Done: every named node has a voter that serves, no seed is left
