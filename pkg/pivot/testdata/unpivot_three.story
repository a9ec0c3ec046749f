# Back to one seed from three members: the seed joins as a learner, the member on
# its own node leaves before it has a vote (two voters on one machine are one
# accident, I2), then the others one by one, and no directory leaves its place
# before the end.

state
want seed cp-1 cp-2 cp-3
grant free
cp-1 answers spec=no member=running/serving:101 proxy=routed
cp-2 answers spec=no member=running/serving:102 proxy=routed
cp-3 answers spec=no member=running/serving:103 proxy=routed
member 101 voter on cp-1/member serves atindex leader clients
member 102 voter on cp-2/member serves atindex clients
member 103 voter on cp-3/member serves atindex clients
tombstone 1 final
----

route
----
TakeGrant: before RegisterLearner cp-1/seed
WriteSpec: cp-1 does not store the wanted spec yet
RegisterLearner cp-1/seed: the seed to be, a learner beside 3 voters
StartSeed cp-1/seed 100: registered and not yet started
wait PromoteLearner cp-1: NotInSync: its index is not known yet; within 1000 entries (I7)
ProveHashes: before any of them goes
RouteProxies: the proxy of cp-1 is not proven on a voter that stays, with what goes draining
MoveLeader cp-2/member 102: it leads and is about to go
WriteTombstone cp-1/member 101: its removal is decided; a restart finds that out
StopMember cp-1/member 101: 2 of 3 voters serve without it
RemoveMember cp-1/member 101: the seed takes its place on this node, once it is gone
FinishTombstone 101: the list no longer names it
PromoteLearner cp-1/seed 100: the seed, in sync (0 entries behind) and serving
ProveHashes: before any of them goes
RouteProxies: the proxy of cp-1 is not proven on a voter that stays, with what goes draining
MoveLeader cp-1/seed 100: the seed is to be the only voter
RestartMember cp-3/member 103: its clients go to the seed while 2 of 3 voters serve; once there are two voters it could only be cut off
wait RemoveMember cp-3: NotServing: voter 103 does not serve clients; its client port answers, before any other voter goes (I2)
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

# The seed has a vote. The last to leave has clients still: they are sent on by a
# restart while two of three serve, since the list of two could only cut them off.
state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=whole/down:101,parked seed=running/serving:201 proxy=routed
cp-2 answers member=running/serving:102 proxy=routed
cp-3 answers member=running/serving:103 proxy=routed
member 201 voter on cp-1/seed serves atindex leader settled
member 102 voter on cp-2/member serves atindex settled clients
member 103 voter on cp-3/member serves atindex settled clients
tombstone 101 final
proof 201 102 103
----

next
----
RestartMember cp-3/member 103: its clients go to the seed while 2 of 3 voters serve; once there are two voters it could only be cut off

apply
----
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=whole/down:101,parked seed=running/serving:201 proxy=routed
cp-2 answers member=running/serving:102 proxy=routed
cp-3 answers member=running/up:103,late-restarted proxy=routed
member 102 voter on cp-2/member serves atindex settled clients
member 103 voter on cp-3/member notserving atindex unsettled noclients
member 201 voter on cp-1/seed serves atindex settled leader
tombstone 101 final
proof 102 103 201

next
----
wait RemoveMember cp-3: NotServing: voter 103 does not serve clients; its client port answers, before any other voter goes (I2)

# It serves again, and etcd would refuse the last removal for 5 s: the wait is done
# while there are three voters.
also
cp-3 answers member=running/serving:103 proxy=routed
member 103 voter on cp-3/member serves atindex unsettled noclients
----

next
----
wait RemoveMember cp-3: NotSettled: voter 103 has run for a few seconds only, and etcd would refuse the removal that comes after; 6 s, so that two voters stand alone for a moment only (I2)

also
member 103 voter on cp-3/member serves atindex settled noclients
----

next
----
WriteTombstone cp-2/member 102: its removal is decided; a restart finds that out

# Another voter fails in that moment: nothing goes, and the guard would not let
# the restart take the quorum with it. The seed itself never goes on this way.
also
cp-2 answers member=running/up:102 proxy=routed
member 102 voter on cp-2/member notserving
member 103 voter on cp-3/member serves atindex settled clients
----

next
----
wait RemoveMember cp-2: NotServing: voter 102 does not serve clients; its client port answers, before any other voter goes (I2)

check
RestartMember cp-3/member 103
StopMember cp-1/seed 201
RemoveMember cp-1/seed 201
RegisterLearner cp-2/seed
PromoteLearner cp-3/member 103
----
refuse RestartMember cp-3: KeepsQuorum: 1 of 3 voters would serve; at least 2 (I2)
refuse StopMember cp-1: SpecWants: the spec wants seed, and voter 201 is part of that (I4)
refuse RemoveMember cp-1: SpecWants: the spec wants seed, and voter 201 is part of that (I4)
refuse RegisterLearner cp-2: SpecNames: member 201 is there already (I1)
refuse PromoteLearner cp-3: SpecWants: the spec wants seed, which has no place for it (I7)

# Stopped on its way out, and then another voter fails: it is a voter like any
# other and starts again (I2).
also
cp-2 answers member=whole/down:102,parked proxy=routed
cp-3 answers member=running/up:103 proxy=routed
member 102 voter on cp-2/member notserving
member 103 voter on cp-3/member notserving
tombstone 102 intended
----

next
----
StartMember cp-2/member 102: its directory is whole, its process is down

# Had it held, its removal goes on; without the tombstone it was parked by
# accident, and starts.
also
cp-3 answers member=running/serving:103 proxy=routed
member 103 voter on cp-3/member serves atindex settled noclients
----

next
----
RemoveMember cp-2/member 102: the seed leads and serves every proxy, hashes are equal

also
tombstone 102 partial
----

next
----
WriteTombstone cp-2/member 102: its removal is decided; a restart finds that out

# A voter whose directory is gone is for a person to judge in this direction too.
state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:101 proxy=routed
cp-2 answers member=running/serving:102 proxy=routed
cp-3 answers member=absent/down proxy=routed
member 101 voter on cp-1/member serves atindex leader
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member notserving
----

next
----
refuse StartMember cp-3: LostDirectory: voter 103 has no directory any more; replace the member (I9)

also
cp-3 answers member=part/down:103,why=torn-log proxy=routed
----

next
----
refuse StartMember cp-3: PartDirectory: the directory of voter 103 is part: torn-log; replace the member (I3)

# One that is merely down is waited for: nobody else goes meanwhile.
also
cp-3 answers member=running/up:103 proxy=routed
----

next
----
wait RemoveMember cp-3: NotServing: voter 103 does not serve clients; its client port answers, before any other voter goes (I2)

# A node on which no seed could start is refused before anything is registered,
# and what lies in the seed's place and is nobody's is never touched.
also
cp-3 answers member=running/serving:103 proxy=routed
member 103 voter on cp-3/member serves atindex
unfit cp-1 port 12380 is taken
----

next
----
refuse RegisterLearner cp-1: NodeUnfit: port 12380 is taken; a node on which a member can start

state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:101 seed=foreign/down,why=cluster-7f proxy=routed
cp-2 answers member=running/serving:102 proxy=routed
cp-3 answers member=running/serving:103 proxy=routed
member 101 voter on cp-1/member serves atindex leader
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
----

next
----
refuse StartMember cp-1: ForeignDirectory: cluster-7f; move it away by hand; nothing of it was touched (I3)

# An old seed's directory is retired first, every voter proved before.
also
cp-1 answers member=running/serving:101 seed=older/down:1,parked proxy=routed
----

next
----
ProveHashes: every voter, before an old seed's directory leaves its place

apply
----
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:101 seed=older/down:1,parked proxy=routed
cp-2 answers member=running/serving:102 proxy=routed
cp-3 answers member=running/serving:103 proxy=routed
member 101 voter on cp-1/member serves atindex leader
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
proof 101 102 103

next
----
RetireDirectory cp-1/seed 1: its directory is older and no member of the list: kept in the attic

# One seed at a time: another node has one.
state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:101
cp-2 answers member=running/serving:102 seed=running/serving:201
cp-3 answers member=running/serving:103
member 101 voter on cp-1/member serves atindex leader
member 102 voter on cp-2/member serves atindex
member 103 voter on cp-3/member serves atindex
member 201 learner on cp-2/seed serves atindex
----

next
----
refuse RegisterLearner cp-1: SeedElsewhere: learner 201 is a seed on cp-2; `bootstrap unpivot --to cp-2`, or `bootstrap pivot` first (I1)

# The seed's learner dies for good after the member on its node was stopped: that
# member starts again, since nothing takes its place any more.
state
want seed cp-1 cp-2 cp-3
grant held
cp-1 answers member=whole/down:101,parked
cp-2 answers member=running/serving:102
cp-3 answers member=running/serving:103
member 101 voter on cp-1/member notserving
member 102 voter on cp-2/member serves atindex leader
member 103 voter on cp-3/member serves atindex
tombstone 101 intended
----

next
----
StartMember cp-1/member 101: its directory is whole, its process is down

# Nothing answers with a list, and no directory is there: a cluster that was
# founded is never founded again (I1).
state
want seed cp-1
grant held
cluster founded
cp-1 answers
list unknown
----

next
----
refuse RegisterLearner: NoLeader: no member runs, and no directory may start; a whole directory of a member (I4)

check
StartSeed cp-1/seed
StartSeed cp-1/seed 7
----
refuse StartSeed cp-1: KnownIdentity: an empty directory, and member 0 is no learner that never started; RegisterLearner (I9)
refuse StartSeed cp-1: KnownIdentity: an empty directory, and member 7 is no learner that never started; RegisterLearner (I9)
