# From one seed to three managed members, in the order of doc.go: learners only
# (M1, I7), the seed's node last, the seed leaves on evidence and not on a timer
# (M12), its directory last of all (I3).

state
want cp-1 cp-2 cp-3
grant free
cp-1 answers spec=no seed=running/serving:1
cp-2 answers spec=no
cp-3 answers spec=no
member 1 voter on cp-1/seed serves atindex leader
----

route
----
TakeGrant: before RegisterLearner cp-1/member
WriteSpec: cp-1 does not store the wanted spec yet
RegisterLearner cp-1/member: 0 of 3 named nodes have a member
RegisterLearner cp-2/member: 1 of 3 named nodes have a member
RegisterLearner cp-3/member: 2 of 3 named nodes have a member
StartMember cp-1/member 100: registered and not yet started
StartMember cp-2/member 101: registered and not yet started
StartMember cp-3/member 102: registered and not yet started
wait PromoteLearner cp-1: NotInSync: its index is not known yet; within 1000 entries (I7)
wait PromoteLearner cp-2: NotInSync: its index is not known yet; within 1000 entries (I7)
wait PromoteLearner cp-3: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-2/member 101: in sync (0 entries behind) and serving
PromoteLearner cp-3/member 102: in sync (0 entries behind) and serving
ProveHashes: before anybody is routed away from the seed
RouteProxies: the proxy of cp-1 is not proven on a managed member; the seed drains
PromoteLearner cp-1/member 100: the member on the seed's own node, last
MoveLeader cp-1/member 100: the seed leads and is about to go
WriteTombstone cp-1/seed 1: its removal is decided; a restart finds that out
StopMember cp-1/seed 1: 3 of 4 voters serve without it
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved
FinishTombstone 1: the list no longer names it
ProveHashes: every member, before a directory that nobody needs leaves its place
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/seed 1: its member is removed and every voter is proved
Done: every named node has a voter that serves, no seed is left

# The same with the way out looked at closely: all is in sync, the last learner
# waits on the seed's own node.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
proof 1 101 102
----

next
----
PromoteLearner cp-1/member 100: the member on the seed's own node, last

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed serves atindex leader
member 100 voter on cp-1/member serves atindex
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
proof 1 101 102

next
----
MoveLeader cp-1/member 100: the seed leads and is about to go

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed serves atindex
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
proof 1 101 102

next
----
WriteTombstone cp-1/seed 1: its removal is decided; a restart finds that out

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed serves atindex
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 intended
proof 1 101 102

next
----
StopMember cp-1/seed 1: 3 of 4 voters serve without it

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,parked proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed notserving behind=0 noclients
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 intended
proof 1 101 102

next
----
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,parked
cp-2 answers member=running/serving:101
cp-3 answers member=running/serving:102
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 intended
proof 1 101 102

next
----
FinishTombstone 1: the list no longer names it

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,parked
cp-2 answers member=running/serving:101
cp-3 answers member=running/serving:102
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 final
proof 1 101 102

# Stopped, removed, buried. Hashes once more, now with the last member.
next
----
ProveHashes: every member, before a directory that nobody needs leaves its place

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,parked
cp-2 answers member=running/serving:101
cp-3 answers member=running/serving:102
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 final
proof 100 101 102

next
----
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=whole/down:1,parked proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 final
proof 100 101 102

next
----
RetireDirectory cp-1/seed 1: its member is removed and every voter is proved

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
tombstone 1 final
proof 100 101 102

next
----
Done: every named node has a voter that serves, no seed is left
