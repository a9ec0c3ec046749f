# A pivot of one: with two voters on one machine, stopping one before its removal
# would stop writes, so it is removed first (I2).

state
want cp-1
grant free
cp-1 answers spec=no seed=running/serving:1
member 1 voter on cp-1/seed serves atindex leader
----

route
----
TakeGrant: before RegisterLearner cp-1/member
WriteSpec: cp-1 does not store the wanted spec yet
RegisterLearner cp-1/member: 0 of 1 named nodes have a member
StartMember cp-1/member 100: registered and not yet started
wait PromoteLearner cp-1: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-1/member 100: in sync (0 entries behind) and serving
ProveHashes: before anybody is routed away from the seed
RouteProxies: the proxy of cp-1 is not proven on a managed member; the seed drains
MoveLeader cp-1/member 100: the seed leads and is about to go
WriteTombstone cp-1/seed 1: its removal is decided; a restart finds that out
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved
FinishTombstone 1: the list no longer names it
StopMember cp-1/seed 1: the list no longer names it
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/seed 1: its member is removed and every voter is proved
Done: every named node has a voter that serves, no seed is left

# Two voters: the guard says the same.
state
want cp-1
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
member 1 voter on cp-1/seed serves atindex
member 100 voter on cp-1/member serves atindex leader
tombstone 1 intended
proof 1 100
----

check
StopMember cp-1/seed 1
RemoveMember cp-1/seed 1
----
refuse StopMember cp-1: KeepsQuorum: 1 of 2 voters would serve; at least 2 (I2)
may RemoveMember cp-1/seed 1
