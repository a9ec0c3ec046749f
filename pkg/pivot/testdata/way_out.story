# The seed leaves on evidence, not on a timer (M12): members are voters, in sync,
# serve, have equal hashes, every proxy is on them, leadership is moved. Each
# missing fact keeps it (I2, I3, I4, I7).

# A member is stopped (SIGSTOP): it does not serve, so the seed stays.
state
want cp-1 cp-2
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1
cp-2 answers member=running/up:101
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 learner on cp-2/member notserving atindex
----

next
----
wait PromoteLearner cp-2: NotServing: it does not serve clients yet; its client port answers (I7)

# It became a voter, the first of two, and then stopped: no quorum to go on with.
also
member 101 voter on cp-2/member notserving atindex
member 1 voter on cp-1/seed serves atindex leader
----

next
----
wait RegisterLearner: QuorumUnknown: 1 of 2 voters serve, 0 silent; 2 of 2 voters serving (I2)

# Of three voters one stopped: hashes wait for it, the others are not asked in vain.
also
want cp-1 cp-2 cp-3
cp-3 answers member=running/serving:102
member 101 voter on cp-2/member notserving atindex
member 102 voter on cp-3/member serves atindex
member 1 voter on cp-1/seed serves atindex leader
----

next
----
wait ProveHashes cp-2: NotServing: voter 101 does not serve clients; its client port answers

# Hashes differ: everything stops.
state
want cp-1 cp-2
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1
cp-2 answers member=running/serving:101
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 voter on cp-2/member serves atindex
proof differ revision 5000: seed 1f2e, cp-2 9a70
----

next
----
refuse ProveHashes: HashesDiffer: revision 5000: seed 1f2e, cp-2 9a70; equal HashKV at one revision; nothing is removed (I1)

# The seed does not answer any more: there is nothing to prove against.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/up:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed notserving
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
----

next
----
wait ProveHashes cp-1: NotServing: the seed does not answer; it serves again, so that members are proved against it (I4)

# Its directory is gone: that does not pass by itself.
also
cp-1 answers member=running/serving:100 proxy=routed
----

next
----
refuse StartSeed cp-1: SeedDirectory: the list names seed 1, its directory is absent; its directory back, or the removal of this member by ID (I3)

# The seed leads and nobody is known to hold its index.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed serves atindex leader
member 100 voter on cp-1/member serves
member 101 voter on cp-2/member serves
member 102 voter on cp-3/member serves behind=4000
proof 1 101 102
----

next
----
wait MoveLeader: NoTarget: no member serves at the leader's index; one (I7)

# The least lagging one, where the seed's own node has none that fits.
also
member 101 voter on cp-2/member serves atindex
member 1 voter on cp-1/seed serves atindex leader
----

next
----
MoveLeader cp-2/member 101: the seed leads and is about to go

# Stopped on its way out, and then cp-2's member fails: 2 of 4 serve. The parked
# seed is a voter like any other and starts again (I2).
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,parked proxy=routed
cp-2 answers member=running/up:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed notserving
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member notserving
member 102 voter on cp-3/member serves atindex
tombstone 1 intended
proof 1 101 102
----

next
----
StartSeed cp-1/seed 1: its directory is whole, its process is down

# Had it held, the removal would go on.
also
cp-2 answers member=running/serving:101 proxy=routed
member 101 voter on cp-2/member serves atindex
----

next
----
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved

# Removed under a final tombstone, and ended by itself: it is parked, since its
# agent still wants it; its directory is never started again, whatever the list
# says, and waits for the last proof.
state
want cp-1
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,assigned=1,kept proxy=routed
member 100 voter on cp-1/member serves atindex leader
tombstone 1 final
----

next
----
StopMember cp-1/seed 1: the list no longer names it

also
cp-1 answers member=running/serving:100 seed=older/down:1,parked proxy=routed
----

next
----
ProveHashes: every member, before a directory that nobody needs leaves its place

# Steady state: somebody is restarting.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/up:102 proxy=routed
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member notserving behind=3
----

next
----
wait Done cp-3: NotServing: voter 102 does not serve clients; its client port answers

settle
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex

next
----
Done: every named node has a voter that serves, no seed is left
