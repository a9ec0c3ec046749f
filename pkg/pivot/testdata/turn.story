# A person turns round half way, in either direction: what was decided and is not
# asked for any more is taken back while the list still names it (I8).

# An unpivot is given up while its seed is a learner: it goes, and takes no vote along.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:101 seed=running/serving:201 proxy=routed
cp-2 answers member=running/serving:102 proxy=routed
cp-3 answers member=running/serving:103 proxy=routed
member 101 voter on cp-1/member serves atindex leader
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
member 201 learner on cp-1/seed serves atindex
----

route
----
RemoveMember cp-1/seed 201: a learner, and the spec wants members
StopMember cp-1/seed 201: the list no longer names it
ProveHashes: every member, before a directory that nobody needs leaves its place
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/seed 201: its member is removed and every voter is proved
Done: every named node has a voter that serves, no seed is left

# Given up when a member was decided to go and stopped: it starts, and the
# decision is withdrawn.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:201
cp-2 answers member=whole/down:102,parked
cp-3 answers member=running/serving:103
member 102 voter on cp-2/member notserving
member 103 voter on cp-3/member serves atindex
member 201 voter on cp-1/seed serves atindex leader
tombstone 101 final
tombstone 102 intended
----

next
----
StartMember cp-2/member 102: its directory is whole, its process is down

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:201
cp-2 answers member=running/up:102
cp-3 answers member=running/serving:103
member 102 voter on cp-2/member notserving
member 103 voter on cp-3/member serves atindex
member 201 voter on cp-1/seed serves atindex leader
tombstone 101 final
tombstone 102 intended

settle
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:201
cp-2 answers member=running/serving:102
cp-3 answers member=running/serving:103
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
member 201 voter on cp-1/seed serves atindex leader
tombstone 101 final
tombstone 102 intended

next
----
WithdrawTombstone cp-2/member 102: the spec wants it again, and the list still names it

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:201
cp-2 answers member=running/serving:102
cp-3 answers member=running/serving:103
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
member 201 voter on cp-1/seed serves atindex leader
tombstone 101 final

next
----
RegisterLearner cp-1/member: 2 of 3 named nodes have a member

# The step that withdrew it was cut short: it is done again.
also
tombstone 102 partial
----

next
----
WithdrawTombstone cp-2/member 102: the spec wants it again, and the list still names it

# What is gone is not taken back.
also
tombstone 102 final
----

next
----
RegisterLearner cp-1/member: 2 of 3 named nodes have a member

# The pivot is given up after the seed was stopped and before it was removed: it
# starts again, its tombstone is withdrawn, and the members go.
state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:101 seed=whole/down:1,parked
cp-2 answers member=running/serving:102
cp-3 answers member=running/serving:103
member 1 voter on cp-1/seed notserving
member 101 voter on cp-1/member serves atindex leader
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
tombstone 1 intended
----

route
----
StartSeed cp-1/seed 1: its directory is whole, its process is down
WithdrawTombstone cp-1/seed 1: the spec wants it again, and the list still names it
wait RemoveMember cp-1: NotServing: voter 1 does not serve clients; its client port answers, before any other voter goes (I2)
ProveHashes: before any of them goes
RouteProxies: the proxy of cp-1 is not proven on a voter that stays, with what goes draining
MoveLeader cp-1/seed 1: the seed is to be the only voter
WriteTombstone cp-1/member 101: its removal is decided; a restart finds that out
StopMember cp-1/member 101: 3 of 4 voters serve without it
RemoveMember cp-1/member 101: the seed leads and serves every proxy, hashes are equal
FinishTombstone 101: the list no longer names it
RouteProxies: the proxy of cp-1 is not proven on a voter that stays, with what goes draining
WriteTombstone cp-2/member 102: its removal is decided; a restart finds that out
StopMember cp-2/member 102: 2 of 3 voters serve without it
RemoveMember cp-2/member 102: the seed leads and serves every proxy, hashes are equal
FinishTombstone 102: the list no longer names it
RouteProxies: the proxy of cp-1 is not proven on a voter that stays, with what goes draining
WriteTombstone cp-3/member 103: its removal is decided; a restart finds that out
RemoveMember cp-3/member 103: the seed leads and serves every proxy, hashes are equal
FinishTombstone 103: the list no longer names it
StopMember cp-3/member 103: the list no longer names it
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/member 101: its member is removed and every voter is proved
RetireDirectory cp-2/member 102: its member is removed and every voter is proved
RetireDirectory cp-3/member 103: its member is removed and every voter is proved
Done: the seed serves and is the only member; `bootstrap pivot` makes managed members of it

# Given up among learners: they go, by ID, and the seed stays as it is.
state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=running/up:102
cp-3 answers
member 1 voter on cp-1/seed serves atindex leader
member 102 learner on cp-2/member notserving behind=5000
member 103 learner on cp-3/member unstarted
----

route
----
RemoveMember cp-2/member 102: a learner, and the spec wants seed
StopMember cp-2/member 102: the list no longer names it
RemoveMember cp-3/member 103: a learner, and the spec wants seed
ProveHashes: every member, before a directory that nobody needs leaves its place
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-2/member 102: its member is removed and every voter is proved
Done: the seed serves and is the only member; `bootstrap pivot` makes managed members of it
