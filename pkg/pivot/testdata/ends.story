# A process that its agent cannot keep up (a port in use, a missing file) is
# named with its last words and waited for. It is not started again by a step,
# which would only begin its agent's backoff anew, and never evicted: alive or
# about to be is all that a look can tell (I4).

# The other learners join meanwhile.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=absent/down,assigned=101,kept,ended=address-already-in-use
cp-3 answers
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member unstarted
member 101 learner on cp-2/member unstarted
member 102 learner on cp-3/member unstarted
----

next
----
StartMember cp-1/member 100: registered and not yet started

also
cp-1 answers member=running/serving:100 seed=running/serving:1
cp-3 answers member=running/serving:102
member 100 learner on cp-1/member serves atindex
member 101 learner on cp-2/member unstarted
member 102 learner on cp-3/member serves atindex
----

next
----
wait PromoteLearner cp-2: ProcessEnds: the etcd of its member slot ended: address-already-in-use; what its last words name put right; its agent starts it again by itself (I4)

# Between two ends it is up for a moment.
also
cp-2 answers member=running/up:101,peerdown,ended=address-already-in-use
----

next
----
wait StartMember cp-2: ProcessEnds: the etcd of its member slot ended: address-already-in-use; what its last words name put right; its agent starts it again by itself (I4)

settle
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1
cp-2 answers member=running/serving:101
cp-3 answers member=running/serving:102
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 learner on cp-2/member serves atindex
member 102 learner on cp-3/member serves atindex

# Another identity than the one its agent keeps: a step starts it.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1 member=running/serving:100
cp-2 answers member=absent/down,assigned=77,kept,ended=refused-by-its-gate
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 learner on cp-2/member unstarted
----

next
----
StopMember cp-2/member 77: the list no longer names it

# Its log was seen and its directory is gone before its name was ever in the
# list: it ran, so it is added anew.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1 member=running/serving:100
cp-2 answers member=absent/down,assigned=101,kept,ended=refused-by-its-gate
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 learner on cp-2/member
----

next
----
RemoveMember cp-2/member 101: a learner that lost its directory is removed and added anew

# The seed alone: whole, and its agent at it.
state
want cp-1 cp-2
grant held
list unknown
cp-1 answers seed=whole/down:1,kept,ended=no-space-left
cp-2 answers
----

next
----
wait RegisterLearner: NoLeader: no member serves with a leader; an election among the members that run (I4)
wait RegisterLearner cp-1: ProcessEnds: the etcd of its seed slot ended: no-space-left; what its last words name put right; its agent starts it again by itself (I4)

settle
----
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
list unknown

# A voter of three, after the pivot.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 proxy=routed
cp-2 answers member=whole/down:101,kept,ended=certificate-expired proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member notserving
member 102 voter on cp-3/member serves atindex
tombstone 1 final
----

next
----
wait Done cp-2: ProcessEnds: the etcd of its member slot ended: certificate-expired; what its last words name put right; its agent starts it again by itself (I4)

# The first start of the seed fails.
state
want seed cp-1
grant unknown
list unknown
cp-1 answers seed=absent/down,kept,ended=address-already-in-use
----

next
----
wait Done cp-1: ProcessEnds: the etcd of its seed slot ended: address-already-in-use; what its last words name put right; its agent starts it again by itself (I4)
